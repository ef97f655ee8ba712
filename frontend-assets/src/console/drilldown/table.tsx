// The whole table of a dimension: sorted, searched, paged and downloaded.
import type { ComponentChildren } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { Failure } from '../core/api';
import { Action, Dialog } from '../core/dialog';
import { t } from '../core/language';
import { Change, metricText, metricValue } from '../core/metrics';
import { go } from '../core/router';
import { reading } from '../core/source';
import { Failed, Loading } from '../core/states';
import { coded, dimensionText, isPlain, isSource, isTime, valueText } from '../core/values';
import { addressOf, selectionOf, type View, withFilter } from '../core/view';
import { patiently } from '../parts/patiently';
import { Progress } from '../parts/progress';
import { valueFilter } from '../parts/ranks';
import { save } from '../parts/save';
import { rows as readRows, sharedRows, type OrderDirection, type ReportDimension } from '../operations';
import { type Column, columnsOf, type Connection, cellsOf, enumOf, type Row } from './columns';
import { csv } from './csv';
import { EventLabel } from './eventlabel';
import { Icon } from './icon';
import { Missing } from './imported';

const pageRows = 100; // rows that one click adds
const csvRows = 1_000; // rows of one request of a download
const wordRows = 300; // rows among which words are searched

/** orderOf reads an order from the URL, such as "pageviews.asc". */
function orderOf(text: string, columns: Column[]): Order {
  const [name, direction] = text.split('.');
  const column = columns.find((column) => column === name);
  return { column: column ?? 'visitors', direction: column && direction === 'asc' ? 'ASC' : 'DESC' };
}

/** inOrder sorts rows of times by their values. */
const inOrder = (edges: Connection['edges']): Connection['edges'] =>
  [...edges].sort((a, b) => (a.node.value < b.node.value ? -1 : 1));

/** isWorded reports whether the page shows words in place of the values of a dimension, which the server cannot search. */
const isWorded = (dimension: string): boolean =>
  dimension in coded || isTime(dimension) || /^(EVENT|COUNTRY|LANGUAGE|SCREEN_WIDTH)$/.test(dimension);

/** containing returns the rows of a list whose value or words contain a text. */
function containing(list: Connection, dimension: string, search: string): Connection {
  const edges = list.edges.filter(({ node: { value } }) =>
    [valueText(dimension, value), value].some((text) => text.toLowerCase().includes(search.toLowerCase())),
  );
  return { ...list, edges, totalCount: edges.length };
}

/** WholeTable is a dialog with all values of a dimension. */
export function WholeTable({ id, view, onClose }: { id: string; view: View; onClose(): void }) {
  const dimension = view.all as ReportDimension;
  const { property, event } = view;
  const columns = columnsOf(dimension);
  const order = orderOf(view.order, columns);
  const unordered = isTime(dimension) && !view.order; // in the order of time
  const { search } = view;
  const change = (changes: Partial<View>): void => go(addressOf(view, changes), true);
  const [list, setList] = useState<Connection>();
  const [failure, setFailure] = useState<Failure>();
  const [progress, setProgress] = useState<{ rows: number; wait: number }>();
  const latest = useRef<AbortController | undefined>(undefined);
  const stop = useRef<AbortController | undefined>(undefined);

  const file = useRef('');

  const read = async (first: number, after: string | null, signal?: AbortSignal): Promise<Connection> => {
    const worded = search !== '' && isWorded(dimension);
    const variables = {
      ...selectionOf(view),
      by: dimension,
      property: property || null,
      event: event || null,
      orderBy: { metric: enumOf(order.column), direction: order.direction },
      search: (!worded && search) || null,
      first: worded ? wordRows : first,
      after,
    };
    const site = await reading(id, readRows, sharedRows)(variables, signal);
    const { report } = site;
    if (!report?.breakdown) throw new Failure('INTERNAL', '');

    file.current = ['domain' in site && site.domain, property || dimension, report.from, report.to].join('_');
    const list = worded ? containing(report.breakdown, dimension, search) : report.breakdown;
    return unordered ? { ...list, edges: inOrder(list.edges) } : list;
  };

  const load = async (): Promise<void> => {
    latest.current?.abort();
    const stop = (latest.current = new AbortController());
    setFailure(undefined);
    try {
      const found = await read(pageRows, null, stop.signal);
      if (!stop.signal.aborted) setList(found);
    } catch (error) {
      if (!stop.signal.aborted) setFailure(error instanceof Failure ? error : new Failure('INTERNAL', String(error)));
    }
  };

  // Typing asks once it pauses.
  useEffect(() => {
    const timer = setTimeout(load, search ? 250 : 0);
    return () => clearTimeout(timer);
  }, [search, order.column, order.direction, unordered]);
  useEffect(
    () => () => {
      latest.current?.abort();
      stop.current?.abort();
    },
    [],
  );

  const more = async (): Promise<void> => {
    const next = await read(pageRows, list!.pageInfo.endCursor);
    setList({ ...next, edges: [...list!.edges, ...next.edges] });
  };

  const download = async (): Promise<void> => {
    const { signal } = (stop.current = new AbortController());
    const all: Row[] = [];
    setFailure(undefined);
    try {
      let after: string | null = null;
      do {
        setProgress({ rows: all.length, wait: 0 });
        const wait = (seconds: number): void => setProgress({ rows: all.length, wait: seconds });
        const page: Connection = await patiently(() => read(csvRows, after, signal), wait, signal);
        all.push(...page.edges.map((edge) => edge.node));
        after = page.pageInfo.hasNextPage ? page.pageInfo.endCursor : null;
      } while (after);
    } catch (error) {
      if (!signal.aborted) setFailure(error instanceof Failure ? error : new Failure('INTERNAL', String(error)));
      return;
    } finally {
      setProgress(undefined);
    }

    save(new Blob([csv(cellsOf(dimension, all))], { type: 'text/csv' }), file.current.toLowerCase().replace(/[^\p{L}\p{N}_.-]/gu, '-') + '.csv');
  };

  const lines = useLines(list, columns, view);
  const title = property ? [event, property].filter(Boolean).join(': ') : dimensionText(dimension);
  return (
    // The dialog disappears before its rows are removed, which takes longer.
    <Dialog title={title} onClose={() => setTimeout(onClose, 50)} wide>
      <div class="filters">
        <label>
          <span class="sr">{t('table.search')}</span>
          <input
            type="search"
            placeholder={t('table.search')}
            value={search}
            onInput={(e) => change({ search: e.currentTarget.value })}
          />
        </label>
        <label class="sort">
          {t('sites.order')}{' '}
          <select value={order.column} onChange={(e) => change({ order: e.currentTarget.value })}>
            {columns.map((column) => (
              <option key={column} value={column}>{metricText(column)}</option>
            ))}
          </select>
        </label>
        {list && <span role="status">{t('table.rows', { n: list.totalCount })}</span>}
        {progress ? (
          <Progress
            text={t('table.progress', { n: progress.rows })}
            wait={progress.wait}
            stop={() => stop.current!.abort()}
          />
        ) : (
          list && list.totalCount > 0 && <Action run={download}>{t('table.csv')}</Action>
        )}
      </div>
      {failure && <Failed failure={failure} retry={load} />}
      {!list && !failure && <Loading />}
      {list?.totalCount === 0 && <p class="none">{t('table.none')}</p>}
      {list && (
        <p class="hint"><Missing state={list.imported} /> {dimension === 'CHANNEL' && t('panel.unassigned')}</p>
      )}
      {list?.edges.some(({ node }) => node.onlyImported) && <p class="hint">{t('imported.rows')}</p>}
      {list && list.totalCount > 0 && (
        <div class="scroll whole" data-order={columns.indexOf(order.column)} tabIndex={0} role="group" aria-label={title}>
          <table>
            <thead>
              <tr>
                <th scope="col">{title}</th>
                {columns.map((column) => (
                  <Head key={column} column={column} order={unordered ? undefined : order} setOrder={(o) => change({ order: o.column + (o.direction === 'ASC' ? '.asc' : '') })} />
                ))}
              </tr>
            </thead>
            <tbody>{lines}</tbody>
          </table>
        </div>
      )}
      {list?.pageInfo.hasNextPage && <p><Action run={more}>{t('list.more')}</Action></p>}
    </Dialog>
  );
}

/**
 * useLines returns the rows of a list. A row that was drawn before is the same object, which Preact skips: with a
 * thousand rows open, a key that is typed would otherwise draw all of them.
 */
function useLines(list: Connection | undefined, columns: Column[], view: View): ComponentChildren {
  const shown = addressOf({ ...view, order: '', search: '' });
  const drawn = useMemo(() => new WeakMap<Row, ComponentChildren>(), [shown]);
  return list?.edges.map(({ node }) => {
    let line = drawn.get(node);
    if (!line) drawn.set(node, (line = <Line key={node.value} row={node} columns={columns} view={view} />));
    return line;
  });
}

type Order = { column: Column; direction: OrderDirection };

/** Head is a column's header, which sorts by it; a second press turns the order. */
function Head({ column, order, setOrder }: { column: Column; order: Order | undefined; setOrder(order: Order): void }) {
  const sorted = order?.column === column;
  const descending = sorted && order.direction === 'DESC';
  return (
    <th scope="col" class="number" aria-sort={sorted ? (descending ? 'descending' : 'ascending') : undefined}>
      <button type="button" class="link" onClick={() => setOrder({ column, direction: descending ? 'ASC' : 'DESC' })}>
        {metricText(column)}
        <span aria-hidden="true">{sorted ? (descending ? ' ↓' : ' ↑') : ''}</span>
      </button>
    </th>
  );
}

function Line({ row, columns, view }: { row: Row; columns: Column[]; view: View }) {
  const dimension = view.all as ReportDimension;
  const { property, event } = view;
  const filters = withFilter(view.filters, valueFilter(dimension, row.value, property, event));
  const text = valueText(dimension, row.value);
  const label = dimension === 'EVENT' ? <EventLabel name={row.value} isKey={row.metrics.conversions > 0} /> : text;
  const address = addressOf(view, { filters, all: '', order: '', search: '', property: '', event: '' });
  return (
    <tr>
      <th scope="row" class={dimension in coded ? 'coded' : undefined} title={text === row.value ? undefined : row.value}>
        {isSource(dimension) && <Icon source={row.value} />}
        {isPlain(dimension, row) ? label : <a href={address}>{label}</a>}
        {/^(ENTRY_|EXIT_)?PAGE$|^EVENT$/.test(dimension) && !isPlain(dimension, row) && row.value && (
          <a
            class="onward"
            href={addressOf(view, { all: '', order: '', search: '', journey: row.value })}
            aria-label={t('table.journeys', { value: text })}
            title={t('table.journeys', { value: text })}
          >
            ↪
          </a>
        )}
      </th>
      {columns.map((column) => (
        <td key={column} class="number" data-label={metricText(column)}>
          {column === 'visitors' && row.metrics.comparison ? (
            <span>
              {metricValue(column, row.metrics[column])}{' '}
              <Change now={row.metrics.visitors} before={row.metrics.comparison.visitors} />
            </span>
          ) : (
            metricValue(column, row.metrics[column])
          )}
        </td>
      ))}
    </tr>
  );
}
