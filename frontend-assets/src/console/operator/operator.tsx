// The page of the installation's operators: backlogs, clocks, certificates, accounts, and their plans.
import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import type { UserError } from '../core/api';
import { usePolling, useQuery } from '../core/data';
import { Action } from '../core/dialog';
import { Field, Form, Select, type Values } from '../core/form';
import { date, exact } from '../core/format';
import { t, type TextKey } from '../core/language';
import { Empty, Loaded } from '../core/states';
import { announce } from '../core/store';
import { Section, Table, Time, Title } from '../core/ui';
import { milliseconds } from '../parts/format';
import {
  accounts,
  accountSites,
  operator,
  setCaptchaPlan,
  setSitePlan,
  type AccountFields,
  type AccountsData,
  type CaptchaPlan,
  type OperatorData,
  type SiteOverviewFields,
  type SitePlan,
} from '../operations';
import { Certificates } from './certificates';
import { Problems } from './problems';

type Health = NonNullable<OperatorData['installationHealth']>;
type Installation = OperatorData['installation'];

const sitePlans: SitePlan[] = ['FREE', 'PRO_100K', 'PRO_500K', 'PRO_1M', 'PRO_2M', 'PRO_5M', 'ENTERPRISE'];
const captchaPlans: CaptchaPlan[] = ['FREE', 'PRO_100K', 'PRO_250K', 'PRO_500K', 'PRO_1M', 'ENTERPRISE'];

const sitesPage = 100; // sites of one request

/** Operator shows the state of the installation and its accounts, and sets plans. */
export function Operator() {
  const query = useQuery(operator, {});
  usePolling(query.reload, 15_000);
  return (
    <>
      <Title text={t('nav.operator')} />
      <Loaded query={query}>
        {({ installationHealth: health, installation }) =>
          health && (
            <>
              <Health health={health} mail={installation.mail} />
              <Certificates certificates={health.certificates} />
              <Settings installation={installation} />
              <Accounts />
            </>
          )
        }
      </Loaded>
    </>
  );
}

function Health({ health: h, mail }: { health: Health; mail: Installation['mail'] }) {
  const problems = h.problems.map((name) => t(`problem.${name}` as TextKey));
  const facts: [string, ComponentChildren][] = [
    [t('operator.version'), h.version],
    [t('operator.database'), h.database === 'postgres' ? 'PostgreSQL' : 'SQLite'],
    [t('operator.worker'), h.workerSeenAt ? <Time at={h.workerSeenAt} /> : t('operator.never')],
    [t('operator.clock'), milliseconds(Math.abs(h.clockAheadMs))],
    [t('operator.due'), exact(h.dueDeliveries)],
    [t('operator.pending'), exact(h.pendingDeliveries)],
    [t('operator.oldest'), h.oldestDueAt ? <Time at={h.oldestDueAt} /> : '–'],
    [t('operator.mails'), exact(h.dueMails)],
    [t('operator.retrying'), exact(mail?.retrying ?? 0)],
    [t('operator.lastSent'), mail?.lastSentAt ? <Time at={mail.lastSentAt} /> : t('operator.never')],
    [t('operator.lastFailed'), mail?.lastFailedAt ? <Time at={mail.lastFailedAt} /> : t('operator.never')],
    [t('operator.reports'), exact(h.dueReports)],
  ];
  return (
    <Section title={t('operator.state')} hint={t('operator.stateHint')}>
      {problems.length > 0 ? (
        <Problems lines={problems} />
      ) : (
        <p class="notice good">{t('operator.fine')}</p>
      )}
      <Facts facts={facts} />
    </Section>
  );
}

function Facts({ facts }: { facts: [string, ComponentChildren][] }) {
  return (
    <dl class="facts even">
      {facts.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

function Settings({ installation: { configuration: c } }: { installation: Installation }) {
  if (!c) return null;
  const configured = (is: boolean): string => t(is ? 'operator.configured' : 'operator.notConfigured');
  return (
    <Section title={t('operator.settings')} hint={t('operator.settingsHint')}>
      <Facts
        facts={[
          [t('operator.roles'), c.roles.join(', ')],
          [t('operator.signups'), c.signups],
          [t('operator.mailServer'), configured(c.mailServer)],
          [t('operator.redis'), configured(c.redis)],
          [
            t('operator.retention'),
            c.retentionMonths ? t('operator.months', { n: c.retentionMonths }) : t('operator.unlimited'),
          ],
          [t('operator.defaultPlan'), planName(c.defaultSitePlan)],
        ]}
      />
    </Section>
  );
}

type List = NonNullable<AccountsData['accounts']>;

/** Accounts lists and searches the accounts of the installation. */
function Accounts() {
  const [search, setSearch] = useState<string | null>(null);
  const query = useQuery(accounts, { search, after: null }, true);
  const find = async ({ search = '' }: Values): Promise<void> => setSearch(search.trim() || null);
  return (
    <Section title={t('operator.accounts')} hint={t('operator.accountsHint')}>
      <Form submit={t('operator.find')} onSubmit={find} class="inline" label={t('operator.search')}>
        <Field name="search" label={t('operator.search')} maxLength={100} />
      </Form>
      <Loaded query={query}>{({ accounts: list }) => list && <AccountList first={list} search={search} />}</Loaded>
    </Section>
  );
}

/** AccountList shows the pages that were loaded so far. */
function AccountList({ first, search }: { first: List; search: string | null }) {
  const [{ list, page }, setShown] = useState({ list: first.nodes, page: first.pageInfo });
  useEffect(() => setShown({ list: first.nodes, page: first.pageInfo }), [first]);

  const more = async (): Promise<void> => {
    const next = (await accounts({ search, after: page.endCursor })).accounts;
    if (next) setShown({ list: [...list, ...next.nodes], page: next.pageInfo });
  };

  if (list.length === 0) return <Empty>{t('operator.noAccounts')}</Empty>;
  return (
    <>
      <p role="status">{t('operator.found', { n: first.totalCount })}</p>
      <ul class="deliveries">
        {list.map((account) => (
          <AccountEntry key={account.accountId} account={account} />
        ))}
      </ul>
      {page.hasNextPage && <Action run={more}>{t('list.more')}</Action>}
    </>
  );
}

/** AccountEntry is an account, with its plan and its sites when it is opened. */
function AccountEntry({ account: a }: { account: AccountFields }) {
  const [captchaPlan, setShown] = useState(a.captchaPlan);
  const set = async ({ plan = '' }: Values): Promise<UserError[]> => {
    const input = { accountId: a.accountId, plan: plan as CaptchaPlan };
    const payload = (await setCaptchaPlan({ input })).setCaptchaPlan;
    if (payload?.captchaPlan) {
      setShown(payload.captchaPlan);
      announce(t('saved'));
    }
    return payload?.userErrors ?? [];
  };
  return (
    <li>
      <details>
        <summary>
          <strong>{a.name}</strong>{' '}
          <span class="hint">
            {date(a.createdAt)}, {t('operator.sites')}: {exact(a.siteCount)}, {t('operator.pageviews')}:{' '}
            {exact(a.pageviews)}
          </span>
        </summary>
        <Facts
          facts={[
            [t('operator.members'), exact(a.memberCount)],
            [t('operator.sitekeys'), exact(a.sitekeyCount)],
            [
              t('operator.captcha'),
              `${planName(captchaPlan)}, ${t('operator.verifications', { n: a.verifications })}`,
            ],
            [t('operator.accountId'), <code>{a.accountId}</code>],
          ]}
        />
        <Form submit={t('operator.set')} onSubmit={set} class="inline" label={t('operator.planOf', { name: a.name })}>
          <Select name="plan" label={t('operator.captchaPlan')} value={captchaPlan} options={optionsOf(captchaPlans)} />
        </Form>
        {a.siteCount > 0 && <AccountSites account={a} />}
      </details>
    </li>
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
    <>
      {siteCount > sites.length && (
        <Form
          submit={t('operator.find')}
          onSubmit={({ search = '' }) => read(search.trim(), [])}
          class="inline"
          label={t('operator.searchOf', { name })}
        >
          <Field name="search" label={t('operator.searchSites')} maxLength={100} />
        </Form>
      )}
      {shown.list.length === 0 ? (
        <p role="status">{t('operator.noSites')}</p>
      ) : (
        <Table
          label={t('operator.sitesOf', { name })}
          head={[t('operator.site'), t('operator.used'), t('operator.plan')]}
        >
          {shown.list.map((site) => (
            <SiteRow key={site.siteId} site={site} />
          ))}
        </Table>
      )}
      {shown.more && <Action run={() => read(shown.search, shown.list)}>{t('list.more')}</Action>}
    </>
  );
}

/** SiteRow is a site with the form of its plan. */
function SiteRow({ site }: { site: SiteOverviewFields }) {
  const [{ plan, usage }, setShown] = useState({ plan: site.plan, usage: site.usage });
  const [chosen, choose] = useState<string>(plan);
  const set = async ({ plan = '', monthlyPageviews = '' }: Values): Promise<UserError[]> => {
    const volume = monthlyPageviews && { monthlyPageviews: Number(monthlyPageviews) };
    const payload = (await setSitePlan({ input: { siteId: site.siteId, plan: plan as SitePlan, ...volume } })).setSitePlan;
    if (payload?.usage) {
      setShown({ plan: plan as SitePlan, usage: payload.usage });
      const { quota } = payload.usage;
      announce(quota ? t('operator.planSet', { plan: planName(plan), quota }) : planName(plan));
    }
    return payload?.userErrors ?? [];
  };
  return (
    <tr>
      <th scope="row">{site.domain}</th>
      <td class="number">{exact(usage.pageviews)} / {usage.quota ? exact(usage.quota) : '∞'}</td>
      <td>
        <Form submit={t('operator.set')} onSubmit={set} class="inline" label={t('operator.planOf', { name: site.domain })}>
          <Select name="plan" label={t('operator.plan')} value={plan} options={optionsOf(sitePlans)} onChange={choose} />
          {chosen === 'ENTERPRISE' && (
            <Field name="monthlyPageviews" type="number" min="1" label={t('operator.volume')} placeholder="∞" />
          )}
        </Form>
      </td>
    </tr>
  );
}

/** planName writes a plan: "PRO 100K". */
const planName = (plan: string): string => plan.replace(/_/g, ' ');

const optionsOf = (plans: string[]): [string, string][] => plans.map((plan) => [plan, planName(plan)]);
