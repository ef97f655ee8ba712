// The audit log: who changed what in the account.
import { useEffect, useState } from 'preact/hooks';
import { useQuery } from '../core/data';
import { Action } from '../core/dialog';
import { dateTime } from '../core/format';
import { t, translated } from '../core/language';
import { setQuery, useURL } from '../core/router';
import { Empty, Failed, Loaded, Missing } from '../core/states';
import { chosenAccount } from '../core/store';
import { Section, Table, Title } from '../core/ui';
import { auditLog, type AuditFields, type AuditFilter, type AuditLogData } from '../operations';

type Account = NonNullable<AuditLogData['account']>;
type Log = NonNullable<Account['auditLog']>;

/** AuditLog lists changes, newest first. The filters stand in the address. */
export function AuditLog() {
  const { searchParams } = useURL();
  const chosen = (name: string): string => searchParams.get(name) ?? '';
  const filter: AuditFilter = {
    ...(chosen('action') && { actions: [chosen('action')] }),
    ...(chosen('actor') && { actorId: chosen('actor') }),
    ...(chosen('object') && { objectId: chosen('object') }),
    ...(chosen('from') && { since: midnight(chosen('from'), 0) }),
    ...(chosen('to') && { until: midnight(chosen('to'), 1) }),
  };
  const query = useQuery(auditLog, { account: chosenAccount(), after: null, filter }, true);

  return (
    <>
      <Title text={t('nav.audit')} />
      <Loaded query={query}>
        {({ account }) => {
          if (!account) return <Missing />;
          const log = account.auditLog;
          return (
            <Section title={account.name} hint={t('audit.hint')}>
              <Filters account={account} chosen={chosen} />
              {query.part && <Failed failure={query.part} retry={query.reload} />}
              {log && <Entries log={log} filter={filter} />}
            </Section>
          );
        }}
      </Loaded>
    </>
  );
}

/** midnight returns the beginning of a day in the reader's time zone, some days later. */
function midnight(day: string, later: number): string {
  const [year = 0, month = 1, date = 1] = day.split('-').map(Number);
  return new Date(year, month - 1, date + later).toISOString();
}

function Filters({ account, chosen }: { account: Account; chosen(name: string): string }) {
  const set = (name: string) => (e: { currentTarget: HTMLInputElement | HTMLSelectElement }) =>
    setQuery({ [name]: e.currentTarget.value.trim() });
  return (
    <div class="filters" role="search">
      <label>
        {t('audit.who')}{' '}
        <select value={chosen('actor')} onChange={set('actor')}>
          <option value="">{t('audit.anyone')}</option>
          {account.members.map(({ id, email }) => (
            <option key={id} value={id}>
              {email}
            </option>
          ))}
        </select>
      </label>
      <label>
        {t('audit.action')}{' '}
        <input type="text" value={chosen('action')} onChange={set('action')} placeholder="updateSite" size={18} />
      </label>
      <label>
        {t('audit.from')} <input type="date" value={chosen('from')} onChange={set('from')} />
      </label>
      <label>
        {t('audit.to')} <input type="date" value={chosen('to')} onChange={set('to')} />
      </label>
      {chosen('object') && (
        <button type="button" class="small" onClick={() => setQuery({ object: '' })}>
          {t('audit.allObjects')}
        </button>
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

  if (list.length === 0) return <Empty>{t('audit.none')}</Empty>;
  return (
    <>
      <Table
        label={t('nav.audit')}
        head={[t('audit.at'), t('audit.who'), t('audit.action'), t('audit.object'), t('audit.changes')]}
      >
        {list.map((entry, i) => (
          <Row key={i} entry={entry} />
        ))}
      </Table>
      {page.hasNextPage && <Action run={more}>{t('list.more')}</Action>}
    </>
  );
}

/** verbOf returns an action in words. Its object stands in another column. */
function verbOf(action: string): string {
  const [verb = ''] = /^sign(In|Out|Up)/.exec(action) ?? action.split(/(?=[A-Z])/);
  return translated('audit.verb', verb, verb);
}

function Row({ entry }: { entry: AuditFields }) {
  const { actor, object } = entry;
  return (
    <tr>
      <th scope="row">
        <time dateTime={entry.at} class="nowrap">
          {dateTime(entry.at)}
        </time>
      </th>
      <td>
        <div>
          {actor.kind === 'USER' ? actor.email : t(`audit.kind.${actor.kind}`)}
          {actor.kind !== 'USER' && actor.email && <div class="hint">{actor.email}</div>}
          {actor.apiTokenName && <div class="hint">{actor.apiTokenName}</div>}
        </div>
      </td>
      <td>
        <div>
          {verbOf(entry.action)}
          <div>
            <code class="hint">{entry.action}</code>
          </div>
        </div>
      </td>
      <td>
        <div>
          {object.name}
          <div class="hint">{translated('audit.type', object.type, object.type)}</div>
          <button
            type="button"
            class="small"
            aria-label={`${t('audit.only')}: ${object.name}`}
            onClick={() => setQuery({ object: object.objectId })}
          >
            {t('audit.only')}
          </button>
        </div>
      </td>
      <td>
        <div>
          {entry.changes.length === 0 && '–'}
          {entry.changes.map(({ name, before, after }) => (
            <div key={name}>
              <code>{name}</code>: {before ?? '–'} → {after ?? '–'}
            </div>
          ))}
        </div>
      </td>
    </tr>
  );
}
