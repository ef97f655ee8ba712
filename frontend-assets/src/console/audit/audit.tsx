// The audit log: who changed what in the account, a sentence for each change.
import { useEffect, useState } from 'preact/hooks';
import { useQuery } from '../core/data';
import { Action } from '../core/dialog';
import { clock, date } from '../core/format';
import { t, type TextKey } from '../core/language';
import { setQuery, useURL } from '../core/router';
import { Empty, Failed, Loaded, Missing } from '../core/states';
import { chosenAccount } from '../core/store';
import { Table } from '../core/ui';
import { auditLog, type AuditFields, type AuditFilter, type AuditLogData } from '../operations';
import { AccountPage } from '../parts/menu';
import { monthName } from '../parts/month';
import { kinds } from './kinds';
import { differences, fieldText, sentence, valueText } from './sentence';

type Account = NonNullable<AuditLogData['account']>;
type Log = NonNullable<Account['auditLog']>;

/** AuditLog lists changes by day, newest first. The filters stand in the address. */
export function AuditLog() {
  const { searchParams } = useURL();
  const chosen = (name: string): string => searchParams.get(name) ?? '';
  const actions = kinds[chosen('kind')];
  const filter: AuditFilter = {
    ...(actions && { actions }),
    ...(chosen('actor') && { actorId: chosen('actor') }),
    ...(chosen('object') && { objectId: chosen('object') }),
    ...between(chosen('period')),
  };
  const query = useQuery(auditLog, { account: chosenAccount(), after: null, filter }, true);
  return (
    <AccountPage title={t('nav.audit')}>
      <p class="lead">{t('audit.hint')}</p>
      <Loaded query={query}>
        {({ account }) => {
          if (!account) return <Missing />;
          const log = account.auditLog;
          return (
            <>
              <Filters account={account} chosen={chosen} />
              {query.part && <Failed failure={query.part} retry={query.reload} />}
              {log && <Entries log={log} filter={filter} />}
            </>
          );
        }}
      </Loaded>
    </AccountPage>
  );
}

/** months are the months that the log is kept for, as YYYY-MM, newest first. */
function months(): string[] {
  const now = new Date();
  return Array.from({ length: 12 }, (_, i) => new Date(Date.UTC(now.getFullYear(), now.getMonth() - i)).toISOString().slice(0, 7));
}

/** between returns the bounds of a period: a month, a number of the last days, or the whole log. */
function between(period: string): Pick<AuditFilter, 'since' | 'until'> {
  const [year = 0, month = 0] = period.split('-').map(Number);
  const now = new Date();
  if (month) return { since: new Date(year, month - 1).toISOString(), until: new Date(year, month).toISOString() };
  return year ? { since: new Date(now.getFullYear(), now.getMonth(), now.getDate() - year + 1).toISOString() } : {};
}

function Filters({ account, chosen }: { account: Account; chosen(name: string): string }) {
  const choice = (name: string, label: string, all: string, options: [value: string, text: string][]) => (
    <select aria-label={label} value={chosen(name)} onChange={(e) => setQuery({ [name]: e.currentTarget.value })}>
      <option value="">{all}</option>
      {options.map(([value, text]) => <option key={value} value={value}>{text}</option>)}
    </select>
  );
  const days = [1, 7, 30].map((n): [string, string] => [String(n), t(n > 1 ? (`period.${n}d` as TextKey) : 'period.today')]);
  return (
    <div class="filters" role="search">
      {choice('actor', t('audit.who'), t('audit.anyone'), account.members.map(({ id, email }) => [id, email]))}
      {choice('kind', t('audit.changes'), t('audit.any'), Object.keys(kinds).map((kind) => [kind, t(`audit.kind.${kind}` as TextKey)]))}
      {choice('period', t('period.label'), t('period.12m'), [...days, ...months().map((month): [string, string] => [month, monthName(month)])])}
      {chosen('object') && (
        <button type="button" class="small" onClick={() => setQuery({ object: '' })}>{t('audit.allObjects')}</button>
      )}
    </div>
  );
}

/** Entries shows the pages that were loaded so far. */
function Entries({ log, filter }: { log: Log; filter: AuditFilter }) {
  const [{ list, page }, setShown] = useState({ list: log.nodes, page: log.pageInfo });
  useEffect(() => setShown({ list: log.nodes, page: log.pageInfo }), [log]);

  const more = async (): Promise<void> => {
    const next = (await auditLog({ account: chosenAccount(), after: page.endCursor, filter })).account?.auditLog;
    if (next) setShown({ list: [...list, ...next.nodes], page: next.pageInfo });
  };
  const days: Record<string, AuditFields[]> = {};
  for (const entry of list) if (!entry.changes[0] || differences(entry)[0]) (days[date(entry.at)] ??= []).push(entry);
  return (
    <>
      {list.length === 0 && <Empty>{t('audit.none')}</Empty>}
      {Object.entries(days).map(([day, entries]) => (
        <section key={day} class="day">
          <h2 class="title">{day === date(new Date().toISOString()) ? t('period.today') : day}</h2>
          <ul class="deliveries">
            {entries.map((entry, i) => (
              <Entry key={entry.at + i} entry={entry} />
            ))}
          </ul>
        </section>
      ))}
      {page.hasNextPage && <Action run={more}>{t('list.more')}</Action>}
    </>
  );
}

/** Entry is one line, which opens to what differs. */
function Entry({ entry }: { entry: AuditFields }) {
  const { at, action, object } = entry;
  const [open, setOpen] = useState(false);
  const [before, after] = sentence(entry);
  const only = new URLSearchParams(location.search);
  only.set('object', object.objectId);
  const changes = differences(entry);
  return (
    <li>
      <p class="entry" onClick={(e) => (e.target as Element).closest('a') || setOpen(!open)}>
        <time dateTime={at}>{clock(at)}</time>
        <span>
          {before}
          {after !== undefined && <a href={'?' + only}>{object.name}</a>}
          {after}
        </span>
        <button type="button" class="link" aria-expanded={open} aria-label={`${t('audit.details')}: ${before}${after === undefined ? '' : object.name + after}`} />
      </p>
      {open && changes.length > 0 && (
        <Table label={t('audit.changes')} head={[t('audit.changed'), t('audit.before'), t('audit.after')]}>
          {changes.map(({ name, before, after }) => (
            <tr key={name}>
              <th scope="row">{fieldText(name)}</th>
              <td>{valueText(before)}</td>
              <td>{valueText(after)}</td>
            </tr>
          ))}
        </Table>
      )}
      {open && (
        <p class="hint">
          <code>{action}</code> · <code>{object.objectId}</code>
        </p>
      )}
    </li>
  );
}
