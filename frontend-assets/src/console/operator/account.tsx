// An account as operators see it: its sites, its plans, and its suspension.
import { useState } from 'preact/hooks';
import type { UserError } from '../core/api';
import { useQuery } from '../core/data';
import { Action } from '../core/dialog';
import { Field } from '../core/form';
import { date, exact } from '../core/format';
import { t } from '../core/language';
import { Loaded, Missing } from '../core/states';
import { announce } from '../core/store';
import { Section, Table, Title } from '../core/ui';
import { accounts, accountSites, resumeAccount, setCaptchaPlan, setSitePlan, suspendAccount } from '../operations';
import type { AccountFields, CaptchaPlan, SiteOverviewFields, SitePlan, SuspendAccountData } from '../operations';
import { Ask } from '../parts/ask';
import { Group } from '../parts/group';

const sitePlans: SitePlan[] = ['FREE', 'PRO_100K', 'PRO_500K', 'PRO_1M', 'PRO_2M', 'PRO_5M', 'ENTERPRISE'];
const captchaPlans: CaptchaPlan[] = ['FREE', 'PRO_100K', 'PRO_250K', 'PRO_500K', 'PRO_1M', 'ENTERPRISE'];

const sitesPage = 100; // sites of one request

/** planName writes a plan: "PRO 100K". */
export const planName = (plan: string): string => plan.replace(/_/g, ' ');

/** AccountDetails shows an account, which is found by its id. */
export function AccountDetails({ id }: { id: string }) {
  const query = useQuery(accounts, { search: id, after: null });
  return (
    <>
      <p class="crumb">
        <a href="/operator">{t('nav.operator')}</a>
      </p>
      <Loaded query={query} title={t('operator.account')}>
        {({ accounts: found }) => (found?.nodes[0] ? <Details account={found.nodes[0]} /> : <Missing />)}
      </Loaded>
    </>
  );
}

function Details({ account: a }: { account: AccountFields }) {
  const { accountId, name } = a;
  const [captchaPlan, setShown] = useState(a.captchaPlan);
  const [suspension, setSuspension] = useState(a.suspension);
  const set = async (plan: string): Promise<UserError[]> => {
    const payload = (await setCaptchaPlan({ input: { accountId, plan: plan as CaptchaPlan } })).setCaptchaPlan;
    if (payload?.captchaPlan) {
      setShown(payload.captchaPlan);
      announce(t('saved'));
    }
    return payload?.userErrors ?? [];
  };
  const changed = (payload: SuspendAccountData['suspendAccount']): UserError[] => {
    if (payload?.userErrors.length === 0) {
      setSuspension(payload.suspension);
      announce(t('saved'));
      setTimeout(() => document.querySelector('h1')!.focus()); // the pressed button is gone
    }
    return payload?.userErrors ?? [];
  };
  return (
    <>
      <Title text={name}>
        <p class="hint">
          {t('operator.since', { date: date(a.createdAt) })} · {t('operator.memberCount', { n: a.memberCount })} · <code>{accountId}</code>
        </p>
      </Title>
      {a.siteCount > 0 && <AccountSites account={a} />}
      <Group line title={t('operator.captchaPlan')} hint={`${t('operator.sitekeys')}: ${exact(a.sitekeyCount)}, ${t('operator.verifications', { n: a.verifications })}`}>
        <PlanMenu key={captchaPlan} plan={captchaPlan} plans={captchaPlans} label={t('operator.planOf', { name })} set={set} />
      </Group>
      <Group line title={t('operator.suspension')} hint={suspension?.reason ?? t('operator.suspensionHint')}>
        {suspension ? (
          <Action run={async () => changed((await resumeAccount({ input: { accountId } })).resumeAccount)}>{t('operator.resume')}</Action>
        ) : (
          <Ask
            danger
            button={t('operator.suspend')}
            run={async ({ reason = '' }) => changed((await suspendAccount({ input: { accountId, reason } })).suspendAccount)}
          >
            <Field name="reason" label={t('operator.reason')} hint={t('operator.reasonHint')} maxLength={500} required autoFocus />
          </Ask>
        )}
      </Group>
    </>
  );
}

/** AccountSites lists the sites of an account, in pages and by a search. */
function AccountSites({ account: { accountId, name, siteCount, sites } }: { account: AccountFields }) {
  const [shown, setShown] = useState({ search: '', list: sites, more: siteCount > sites.length });
  const read = async (search: string, before: SiteOverviewFields[]): Promise<void> => {
    const variables = { account: accountId, search: search || null, after: before.at(-1)?.siteId ?? null };
    const next = (await accountSites(variables)).accounts?.nodes[0]?.sites ?? [];
    setShown({ search, list: [...before, ...next], more: next.length === sitesPage });
  };
  return (
    <Section title={`${t('operator.sites')}: ${exact(siteCount)}`}>
      {siteCount > sites.length && (
        <input
          type="search"
          aria-label={t('operator.searchOf', { name })}
          placeholder={t('operator.searchSites')}
          maxLength={100}
          onChange={(e) => void read(e.currentTarget.value.trim(), [])}
        />
      )}
      {shown.list.length === 0 ? (
        <p role="status">{t('operator.noSites')}</p>
      ) : (
        <Table label={t('operator.sitesOf', { name })} head={[t('operator.site'), t('operator.used'), t('operator.plan')]}>
          {shown.list.map((site) => <SiteRow key={site.siteId} site={site} />)}
        </Table>
      )}
      {shown.more && <Action run={() => read(shown.search, shown.list)}>{t('list.more')}</Action>}
    </Section>
  );
}

/** SiteRow is a site with the menu of its plan. */
function SiteRow({ site }: { site: SiteOverviewFields }) {
  const [{ plan, usage }, setShown] = useState({ plan: site.plan, usage: site.usage });
  const set = async (chosen: string, monthly: string): Promise<UserError[]> => {
    const plan = chosen as SitePlan;
    const volume = monthly && { monthlyPageviews: Number(monthly) };
    const payload = (await setSitePlan({ input: { siteId: site.siteId, plan, ...volume } })).setSitePlan;
    if (payload?.usage) {
      setShown({ plan, usage: payload.usage });
      const { quota } = payload.usage;
      announce(quota ? t('operator.planSet', { plan: planName(plan), quota }) : planName(plan));
    }
    return payload?.userErrors ?? [];
  };
  return (
    <tr>
      <th scope="row">{site.domain}</th>
      <td>{exact(usage.pageviews)} / {usage.quota ? exact(usage.quota) : '∞'}</td>
      <td><PlanMenu key={plan} plan={plan} plans={sitePlans} label={t('operator.planOf', { name: site.domain })} volume set={set} /></td>
    </tr>
  );
}

/** PlanMenu is the menu of a plan. A button saves another choice, or the volume that a plan can have. */
function PlanMenu(props: {
  plan: string;
  plans: string[];
  label: string;
  volume?: boolean;
  set(plan: string, volume: string): Promise<UserError[]>;
}) {
  const { plan, plans, label } = props;
  const [chosen, choose] = useState(plan);
  const [volume, setVolume] = useState('');
  const hasVolume = !!props.volume && chosen === 'ENTERPRISE';
  return (
    <span class="inline">
      <select aria-label={label} value={chosen} onChange={(e) => choose(e.currentTarget.value)}>
        {plans.map((one) => <option key={one} value={one}>{planName(one)}</option>)}
      </select>
      {hasVolume && (
        <input type="number" min="1" aria-label={t('operator.volume')} placeholder={t('operator.volume')} onInput={(e) => setVolume(e.currentTarget.value)} />
      )}
      {(chosen !== plan || hasVolume) && <Action run={() => props.set(chosen, hasVolume ? volume : '')}>{t('save')}</Action>}
    </span>
  );
}
