// The page of the installation's operators: its state, certificates and settings, and its accounts.
import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { usePolling, useQuery } from '../core/data';
import { Action } from '../core/dialog';
import { date, exact } from '../core/format';
import { t, type TextKey } from '../core/language';
import { setQuery, useURL } from '../core/router';
import { Empty, Loaded } from '../core/states';
import { Section, Table, Time, Title } from '../core/ui';
import { milliseconds } from '../parts/format';
import { accounts, operator, type AccountsData, type OperatorData } from '../operations';
import { AccountDetails, planName } from './account';
import { Certificates } from './certificates';
import { Problems } from './problems';

type Health = NonNullable<OperatorData['installationHealth']>;
type Installation = OperatorData['installation'];

/** Operator shows the state of the installation and its accounts, or the account that the address names. */
export function Operator() {
  const of = useURL().searchParams.get('of');
  return of ? <AccountDetails key={of} id={of} /> : <Overview />;
}

function Overview() {
  const query = useQuery(operator, {});
  usePolling(query.reload, 15_000);
  return (
    <>
      <Title text={t('nav.operator')}>
        <p class="hint">
          {query.data?.installationHealth?.version} · {query.data?.installationHealth?.database === 'postgres' ? 'PostgreSQL' : 'SQLite'}
        </p>
      </Title>
      <Loaded query={query}>
        {({ installationHealth: health, installation }) =>
          health && (
            <>
              <Health health={health} installation={installation} />
              <Certificates certificates={health.certificates} />
              <Accounts />
            </>
          )
        }
      </Loaded>
    </>
  );
}

/** Health has one line if all is well, and a line for each problem otherwise. The figures are on demand. */
function Health({ health: h, installation: { mail, configuration: c } }: { health: Health; installation: Installation }) {
  const problems = h.problems.map((name) => t(`problem.${name}` as TextKey));
  const configured = (is: boolean): string => t(is ? 'operator.configured' : 'operator.notConfigured');
  const time = (at?: string | null): ComponentChildren => (at ? <Time at={at} /> : t('operator.never'));
  return (
    <section class="card">
      {problems.length > 0 && <Problems lines={problems} />}
      <details>
        <summary>{problems.length > 0 ? t('operator.details') : <span class="now">{t('operator.fine')}</span>}</summary>
        <Facts
          facts={[
            [t('operator.worker'), time(h.workerSeenAt)],
            [t('operator.clock'), milliseconds(Math.abs(h.clockAheadMs))],
            [t('operator.due'), exact(h.dueDeliveries)],
            [t('operator.pending'), exact(h.pendingDeliveries)],
            [t('operator.oldest'), h.oldestDueAt ? <Time at={h.oldestDueAt} /> : '–'],
            [t('operator.mails'), exact(h.dueMails)],
            [t('operator.retrying'), exact(mail?.retrying ?? 0)],
            [t('operator.lastSent'), time(mail?.lastSentAt)],
            [t('operator.lastFailed'), time(mail?.lastFailedAt)],
            [t('operator.reports'), exact(h.dueReports)],
          ]}
        />
        {c && (
          <>
            <h2>{t('operator.settings')}</h2>
            <Facts
              facts={[
                [t('operator.roles'), c.roles.join(', ')],
                [t('operator.signups'), c.signups],
                [t('operator.mailServer'), configured(c.mailServer)],
                [t('operator.redis'), configured(c.redis)],
                [t('operator.retention'), c.retentionMonths ? t('operator.months', { n: c.retentionMonths }) : t('operator.unlimited')],
                [t('operator.defaultPlan'), planName(c.defaultSitePlan)],
              ]}
            />
          </>
        )}
      </details>
    </section>
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

type List = NonNullable<AccountsData['accounts']>;

/** Accounts lists and searches the accounts of the installation. The search stands in the address. */
function Accounts() {
  const search = useURL().searchParams.get('q') || null;
  const query = useQuery(accounts, { search, after: null }, true);
  return (
    <Section title={t('operator.accounts')} hint={t('operator.accountsHint')}>
      <input
        type="search"
        aria-label={t('operator.search')}
        placeholder={t('operator.search')}
        maxLength={100}
        value={search ?? ''}
        onInput={(e) => setQuery({ q: e.currentTarget.value.trim() })}
      />
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
      <Table
        label={t('operator.accounts')}
        head={[t('operator.account'), t('operator.sites'), t('operator.pageviews'), t('operator.captcha'), t('operator.created')]}
      >
        {list.map((a) => (
          <tr key={a.accountId}>
            <th scope="row">
              <a href={'/operator?of=' + a.accountId}>{a.name}</a>
            </th>
            <td>{exact(a.siteCount)}</td>
            <td>{exact(a.pageviews)}</td>
            <td>{`${planName(a.captchaPlan)}, ${exact(a.verifications)}`}</td>
            <td>{date(a.createdAt)}</td>
          </tr>
        ))}
      </Table>
      {page.hasNextPage && <Action run={more}>{t('list.more')}</Action>}
    </>
  );
}
