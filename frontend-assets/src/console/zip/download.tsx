// The dialog that downloads a whole report.
import { zipSync } from 'fflate';
import { useEffect, useRef, useState } from 'preact/hooks';
import { Failure } from '../core/api';
import { Dialog } from '../core/dialog';
import { t } from '../core/language';
import { loadModule } from '../core/modules';
import { reading } from '../core/source';
import { Failed } from '../core/states';
import { announce } from '../core/store';
import { isTime } from '../core/values';
import { selectionOf, type View } from '../core/view';
import { type Cells, cellsOf, type Row } from '../drilldown/columns';
import { csv } from '../drilldown/csv';
import { otherTables, rows as readRows, sharedOtherTables, sharedRows, sharedSourceTables, sourceTables } from '../operations';
import type { ReportDimension, ReportFields, TableRows } from '../operations';
import { useBack } from '../parts/back';
import { patiently } from '../parts/patiently';
import { Progress } from '../parts/progress';
import { save } from '../parts/save';
import { about, revenue, series, totals } from './files';

const pageRows = 1_000; // rows of one further request

/** dimensionsOf names the dimension of each table whose name does not say it. */
const dimensionsOf: Record<string, ReportDimension> = {
  countries: 'COUNTRY',
  daysOfWeek: 'DAY_OF_WEEK',
  hours: 'HOUR_OF_DAY',
};

/** dimensionOf returns the dimension of a table: sourceGroups is SOURCE_GROUP. */
const dimensionOf = (table: string): ReportDimension =>
  dimensionsOf[table] ?? (kebab(table).replaceAll('-', '_').replace(/s$/, '').toUpperCase() as ReportDimension);

/** kebab writes a name as file names do: source-groups. */
const kebab = (name: string): string => name.replace(/[A-Z]/g, (letter) => '-' + letter.toLowerCase());

interface State {
  done: number;
  of: number;
  rows: number;
  wait: number;
}

/** Download reads all tables of a report, and hands a zip of them to the browser's downloads. */
export function Download(props: { id: string; view: View; report: ReportFields; busy: boolean; onClose(): void }) {
  const { id, view, report, onClose } = props;
  const [state, setState] = useState<State>();
  const [failure, setFailure] = useState<Failure>();
  const stop = useRef<AbortController | undefined>(undefined);
  useEffect(() => () => stop.current?.abort(), []);
  useBack(onClose);

  const start = async (): Promise<void> => {
    const { signal } = (stop.current = new AbortController());
    setFailure(undefined);
    setState({ done: 0, of: 1, rows: 0, wait: 0 });
    try {
      const { domain, files } = await collect(id, view, report, setState, signal);
      const values = view.filters.map((filter) => filter.values);
      const name = `${domain} ${report.from} to ${report.to} ${values}`.replace(/[^\p{L}\p{N}.-]+/gu, ' ').trim().slice(0, 120);
      save(zipped(name, files), name + '.zip');
      announce(t('download.done', { name: name + '.zip' }));
      onClose();
    } catch (error) {
      if (!signal.aborted) setFailure(error instanceof Failure ? error : new Failure('INTERNAL', String(error)));
      setState(undefined);
    }
  };

  return (
    <Dialog title={t('download.title')} onClose={onClose}>
      <p>{t('download.text')}</p>
      {failure && <Failed failure={failure} retry={start} />}
      {state ? (
        <Progress
          text={t('download.progress', { n: state.done, of: state.of, rows: state.rows })}
          wait={state.wait}
          stop={() => stop.current!.abort()}
        />
      ) : (
        <div class="actions">
          <button type="button" class="main" disabled={props.busy} onClick={start}>{t('download.start')}</button>
        </div>
      )}
    </Dialog>
  );
}

/** collect reads the tables of a report, one after another, and returns the files by their names. */
async function collect(
  id: string,
  view: View,
  report: ReportFields,
  show: (state: State) => void,
  signal: AbortSignal,
): Promise<{ domain: string; files: Record<string, Cells> }> {
  // The days of the figures that are shown, also if midnight has passed since then.
  const { from, to, comparedFrom } = report;
  const compare = comparedFrom ? { from: comparedFrom, matchDayOfWeek: false } : null;
  const selection = { ...selectionOf(view), period: { from, to }, compare };
  const state = { done: 0, of: 1, rows: 0, wait: 0 };
  const patient = <T,>(call: () => Promise<T>): Promise<T> =>
    patiently(call, (wait) => show({ ...Object.assign(state, { wait }) }), signal);
  const count = (rows: number): void => {
    signal.throwIfAborted();
    state.rows += rows;
    state.done++;
    show({ ...state });
  };

  /** readPage reads rows of a table after a position. */
  const readPage = async (by: ReportDimension, property: string | null, after: string | null): Promise<TableRows> => {
    const orderBy = { metric: 'VISITORS', direction: 'DESC' } as const;
    const variables = { ...selection, by, property, event: null, orderBy, search: null, first: pageRows, after };
    const { report: found } = await patient(() => reading(id, readRows, sharedRows)(variables, signal));
    if (!found?.breakdown) throw new Failure('INTERNAL', '');
    return found.breakdown;
  };

  /** linesOf returns the lines of a table, whose first rows may have been read. */
  const linesOf = async (by: ReportDimension, first: TableRows | null, property: string | null = null): Promise<Cells> => {
    const all: Row[] = [];
    for (let page = first ?? (await readPage(by, property, null)); ; ) {
      all.push(...page.edges.map((edge) => edge.node));
      if (!page.pageInfo.hasNextPage) break;
      page = await readPage(by, property, page.pageInfo.endCursor);
    }
    if (isTime(by)) all.sort((a, b) => (a.value < b.value ? -1 : 1));
    count(all.length);
    return cellsOf(by, all, !!report.comparedFrom);
  };

  const site = await patient(() => reading(id, sourceTables, sharedSourceTables)(selection, signal));
  const other = await patient(() => reading(id, otherTables, sharedOtherTables)(selection, signal));
  const tables = Object.entries({ ...site.report, ...other.report }) as [string, TableRows | null][];
  const domain = 'domain' in site && site.domain;
  if (!tables[0] || !domain) throw new Failure('INTERNAL', '');

  const files: Record<string, Cells> = { report: about(domain, report, view), totals: totals(report), series: series(report) };
  if (report.totals.revenue[0] || report.totals.comparison?.revenue[0]) files['revenue'] = revenue(report);

  const { parts } = await loadModule(() => import('./further'));
  const valuesOf = (name: string): Promise<Cells> => linesOf('PROPERTY', null, name);
  const further = await parts({ id, selection, patient, valuesOf, count, signal });
  state.of = tables.length + further.length;

  for (const [table, first] of tables) {
    files[kebab(table)] = await linesOf(dimensionOf(table), first);
  }
  for (const read of further) await read(files);
  return { domain, files };
}

/** zipped returns the files as a zip, in a folder. */
function zipped(folder: string, files: Record<string, Cells>): Blob {
  const encoder = new TextEncoder();
  const entries = Object.entries(files).map(([name, cells]) => [`${folder}/${name}.csv`, encoder.encode(csv(cells))]);
  return new Blob([zipSync(Object.fromEntries(entries)) as Uint8Array<ArrayBuffer>], { type: 'application/zip' });
}
