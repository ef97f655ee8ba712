// The page of the installation's operators: backlogs, clocks, certificates, accounts, and their plans.
import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import type { UserError } from '../core/api';
import { usePolling, useQuery } from '../core/data';
import { Action } from '../core/dialog';
import { Field, Form, Select, type Values } from '../core/form';
import { date, exact, milliseconds } from '../core/format';
import { t } from '../core/language';
import { Empty, Loaded } from '../core/states';
import { announce } from '../core/store';
import { Section, Table, Time, Title } from '../core/ui';
import {
  accounts,
  operator,
  setCaptchaPlan,
  setSitePlan,
  type AccountFields,
  type AccountsData,
  type CaptchaPlan,
  type OperatorData,
  type SitePlan,
} from '../operations';
import { Certificates } from './certificates';
import { Problems } from './problems';

type Health = NonNullable<OperatorData['installationHealth']>;
type Installation = OperatorData['installation'];

/** Choice has the initial values of the forms of plans. */
interface Choice {
  siteId?: string;
  accountId?: string;
}

const sitePlans: SitePlan[] = ['FREE', 'PRO_100K', 'PRO_500K', 'PRO_1M', 'PRO_2M', 'PRO_5M', 'ENTERPRISE'];
const captchaPlans: CaptchaPlan[] = ['FREE', 'PRO_100K', 'PRO_250K', 'PRO_500K', 'PRO_1M', 'ENTERPRISE'];

/** Operator shows the state of the installation and its accounts, and sets plans. */
export function Operator() {
  const query = useQuery(operator, {});
  const [choice, setChoice] = useState<Choice>({});
  const [listed, setListed] = useState<AccountFields[]>([]);
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
              <Accounts choose={(next) => setChoice({ ...choice, ...next })} show={setListed} />
              <div class="columns">
                <SitePlans key={choice.siteId} siteId={choice.siteId} listed={listed} />
                <CaptchaPlans key={choice.accountId} accountId={choice.accountId} listed={listed} />
              </div>
            </>
          )
        }
      </Loaded>
    </>
  );
}

const workerLate = 5 * 60_000; // a worker notes the time every minute
const deliveryLate = 10 * 60_000;
const clockLate = 60_000; // beyond it the service refuses to start

/** mailsFail reports whether the newest finished mail was given up, or mails are sent again. */
const mailsFail = (mail: Installation['mail']): boolean =>
  !!mail && (mail.retrying > 0 || (!!mail.lastFailedAt && mail.lastFailedAt > (mail.lastSentAt ?? '')));

function Health({ health: h, mail }: { health: Health; mail: Installation['mail'] }) {
  const age = (at: string | null): number => (at ? Date.now() - Date.parse(at) : 0);
  const problems = [
    (!h.workerSeenAt || age(h.workerSeenAt) > workerLate) && t('operator.noWorker'),
    !h.clockTrusted && t('operator.clockJumped'),
    Math.abs(h.clockAheadMs) > clockLate && t('operator.clockDiffers'),
    age(h.oldestDueAt) > deliveryLate && t('operator.deliveriesLate'),
    mailsFail(mail) && t('operator.mailsFail'),
    h.unknownProxy && t('operator.unknownProxy'),
    h.hiddenClients && t('operator.hiddenClients'),
  ].filter((problem) => problem !== false);

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
function Accounts({ choose, show }: { choose(choice: Choice): void; show(list: AccountFields[]): void }) {
  const [search, setSearch] = useState<string | null>(null);
  const query = useQuery(accounts, { search, after: null }, true);
  const find = async ({ search = '' }: Values): Promise<void> => setSearch(search.trim() || null);
  return (
    <Section title={t('operator.accounts')} hint={t('operator.accountsHint')}>
      <Form submit={t('operator.find')} onSubmit={find} class="inline" label={t('operator.search')}>
        <Field name="search" label={t('operator.search')} maxLength={100} />
      </Form>
      <Loaded query={query}>
        {({ accounts: list }) => list && <AccountList first={list} search={search} choose={choose} show={show} />}
      </Loaded>
    </Section>
  );
}

/** AccountList shows the pages that were loaded so far. */
function AccountList(props: {
  first: List;
  search: string | null;
  choose(choice: Choice): void;
  show(list: AccountFields[]): void;
}) {
  const { first, search, choose, show } = props;
  const [{ list, page }, setShown] = useState({ list: first.nodes, page: first.pageInfo });
  useEffect(() => setShown({ list: first.nodes, page: first.pageInfo }), [first]);
  useEffect(() => show(list), [list]);

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
          <AccountEntry key={account.accountId} account={account} choose={choose} />
        ))}
      </ul>
      {page.hasNextPage && <Action run={more}>{t('list.more')}</Action>}
    </>
  );
}

/** AccountEntry is an account, with its sites when it is opened. */
function AccountEntry({ account: a, choose }: { account: AccountFields; choose(choice: Choice): void }) {
  const chosen = (choice: Choice, name: string): void => {
    choose(choice);
    announce(t('operator.chosen', { name }));
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
              `${planName(a.captchaPlan)}, ${t('operator.verifications', { n: a.verifications })}`,
            ],
            [t('operator.accountId'), <code>{a.accountId}</code>],
          ]}
        />
        <p class="actions">
          <button
            type="button"
            class="small"
            aria-label={t('operator.chooseNamed', { name: a.name })}
            onClick={() => chosen({ accountId: a.accountId }, a.name)}
          >
            {t('operator.choose')}
          </button>
        </p>
        {a.sites.length > 0 && (
          <Table
            label={t('operator.sitesOf', { name: a.name })}
            head={[t('operator.site'), t('operator.plan'), t('operator.used'), t('operator.set')]}
          >
            {a.sites.map((site) => (
              <tr key={site.siteId}>
                <th scope="row">{site.domain}</th>
                <td>{planName(site.plan)}</td>
                <td class="number">
                  {exact(site.usage.pageviews)} / {exact(site.usage.quota)}
                </td>
                <td>
                  <button
                    type="button"
                    class="small"
                    aria-label={t('operator.chooseNamed', { name: site.domain })}
                    onClick={() => chosen({ siteId: site.siteId }, site.domain)}
                  >
                    {t('operator.choose')}
                  </button>
                </td>
              </tr>
            ))}
          </Table>
        )}
      </details>
    </li>
  );
}

/** planName writes a plan: "PRO 100K". */
const planName = (plan: string): string => plan.replace(/_/g, ' ');

/** Listed chooses among what the list of accounts shows. The field below it takes the id of anything else. */
function Listed(props: { label: string; chosen: string | undefined; options: [id: string, text: string][] }) {
  const { label, chosen, options } = props;
  const known = options.some(([id]) => id === chosen);
  return (
    <Select
      name="listed"
      label={label}
      value={known ? chosen! : ''}
      options={[['', t('operator.byId')], ...options]}
    />
  );
}

interface PlanProps {
  listed: AccountFields[];
}

function SitePlans({ siteId: chosen, listed }: PlanProps & { siteId: string | undefined }) {
  const options = listed.flatMap(({ name, sites }) =>
    sites.map(({ siteId, domain }): [string, string] => [siteId, `${domain} (${name})`]),
  );
  const set = async (values: Values): Promise<UserError[]> => {
    const { siteId = '', plan = '', monthlyPageviews = '' } = values;
    const input = {
      siteId: values['listed'] || siteId.trim(),
      plan: plan as SitePlan,
      ...(monthlyPageviews && { monthlyPageviews: Number(monthlyPageviews) }),
    };
    const payload = (await setSitePlan({ input })).setSitePlan;
    if (payload?.usage) announce(t('operator.planSet', { plan: planName(plan), quota: payload.usage.quota }));
    return payload?.userErrors ?? [];
  };
  return (
    <Section title={t('operator.sitePlan')} hint={t('operator.sitePlanHint')}>
      <Form submit={t('operator.set')} onSubmit={set} class="column" label={t('operator.sitePlan')}>
        <Listed label={t('operator.site')} chosen={chosen} options={options} />
        <Field name="siteId" label={t('operator.siteId')} hint={t('operator.idHint')} />
        <Select name="plan" label={t('operator.plan')} options={sitePlans.map((plan) => [plan, planName(plan)])} />
        <Field
          name="monthlyPageviews"
          type="number"
          min="1"
          label={t('operator.volume')}
          hint={t('operator.volumeHint')}
        />
      </Form>
    </Section>
  );
}

function CaptchaPlans({ accountId: chosen, listed }: PlanProps & { accountId: string | undefined }) {
  const set = async ({ accountId = '', plan = '', listed: id }: Values): Promise<UserError[]> => {
    const input = { accountId: id || accountId.trim(), plan: plan as CaptchaPlan };
    const payload = (await setCaptchaPlan({ input })).setCaptchaPlan;
    if (payload?.captchaPlan) announce(t('saved'));
    return payload?.userErrors ?? [];
  };
  return (
    <Section title={t('operator.captchaPlan')} hint={t('operator.captchaPlanHint')}>
      <Form submit={t('operator.set')} onSubmit={set} class="column" label={t('operator.captchaPlan')}>
        <Listed
          label={t('operator.account')}
          chosen={chosen}
          options={listed.map(({ accountId, name }) => [accountId, name])}
        />
        <Field name="accountId" label={t('operator.accountId')} hint={t('operator.idHint')} />
        <Select name="plan" label={t('operator.plan')} options={captchaPlans.map((plan) => [plan, planName(plan)])} />
      </Form>
    </Section>
  );
}
