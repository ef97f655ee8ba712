// The files of a report's zip that are no table of values: properties, numbers, goals, funnels, journeys and cohorts.
import type { Failure } from '../core/api';
import { link, reading } from '../core/source';
import type { Filter, Selection } from '../core/view';
import { type Cells, rounded } from '../drilldown/columns';
import { isPageGoal, mostPageGoals } from '../drilldown/patterns';
import { cohorts, funnelFigures, funnels, goals, journey, journeyStarts, pageGoal, propertyNames, propertyNumbers, segments } from '../operations';
import { sharedCohorts, sharedGoals, sharedJourney, sharedJourneyStarts, sharedPropertyNames, sharedPropertyNumbers } from '../operations';
import type { JourneyStep, ReportPeriod } from '../operations';

const mostProperties = 20; // whose values and numbers are downloaded
const mostStarts = 5; // of which journeys are downloaded

/** Files are the cells of CSV files by their names. */
export type Files = Record<string, Cells>;

interface Reader {
  id: string;
  selection: Selection & { period: ReportPeriod };
  signal: AbortSignal;
  /** Runs a call, and waits for rate limits. */
  patient<T>(call: () => Promise<T>): Promise<T>;
  /** Returns the lines of the values of a property. */
  valuesOf(property: string): Promise<Cells>;
  /** Counts a file that is read, with its lines. */
  count(lines: number): void;
}

/** parts returns functions that each read a part and add its lines to the files. Readers of a link have no funnels. */
export async function parts({ id, selection, signal, patient, valuesOf, count }: Reader): Promise<((files: Files) => Promise<void>)[]> {
  const { period, filters, compare } = selection;
  const of = { period, filters };

  /** read runs a call. It returns null for what the server does not say, of few visitors or of a long period. */
  const read = <T>(call: () => Promise<T>): Promise<T | null> =>
    patient(call).catch((error: Failure) => {
      if (/GROUP_TOO_SMALL|INVALID_ARGUMENT/.test(error.code)) return null;
      throw error;
    });
  const add = (files: Files, name: string, head: string[], lines: Cells): void => {
    if (lines[0]) (files[name] ??= [head]).push(...lines);
    count(lines.length);
  };

  const named = id ? (await patient(() => segments({ id }, signal))).site : null;
  const saved = id ? ((await patient(() => funnels({ id }, signal))).site?.funnels ?? []) : [];
  const readNames = () => reading(id, propertyNames, sharedPropertyNames)({ ...of, event: null }, signal);
  const names = !id && link.hidesRevenue ? [] : ((await patient(readNames)).report?.propertyNames ?? []);
  const properties = names.slice(0, mostProperties);
  const starts = (await patient(() => reading(id, journeyStarts, sharedJourneyStarts)(of, signal))).report;
  const nodes = (rows: NonNullable<typeof starts>['pages']) => rows?.edges.map(({ node }) => node) ?? [];
  const froms = [
    ...nodes(starts?.pages ?? null).map(({ value, metrics }) => ({ from: { page: value }, value, metrics })),
    ...nodes(starts?.events ?? null).map(({ value, metrics }) => ({ from: { event: value }, value, metrics })),
  ]
    .filter(({ value }) => value && value !== '(other)')
    .sort((a, b) => b.metrics.visitors - a.metrics.visitors)
    .slice(0, mostStarts);

  return [
    async (files) => add(files, 'properties', ['property', 'events'], names.map(({ name, events }) => [name, events])),
    ...properties.map(({ name }) => async (files: Files) => {
      const [head, ...lines] = await valuesOf(name);
      (files['property-values'] ??= [['property', 'value', ...head!.slice(1)]]).push(...lines.map((line) => [name, ...line])); // counted already
    }),
    ...properties.map(({ name: property }) => async (files: Files) => {
      const variables = { ...of, event: null, property };
      const found = (await read(() => reading(id, propertyNumbers, sharedPropertyNumbers)(variables, signal)))?.report?.numbers;
      const all = found?.totals.numbers ? found.totals : undefined;
      const pages = (all && found?.breakdown?.nodes) || [];
      add(files, 'numbers', ['property', 'page', 'numbers', 'sum', 'average', 'p50', 'p75', 'p95'], [
        ...(all ? [[property, '', all.numbers, all.sum, all.average, all.p50, all.p75, all.p95]] : []),
        ...pages.flatMap(({ value, figures: f }) => (f.numbers ? [[property, value, f.numbers, null, null, f.p50, f.p75, null]] : [])),
      ]);
    }),
    async (files) => {
      const report = (await patient(() => reading(id, goals, sharedGoals)(selection, signal))).report;
      const lines: Cells = (report?.breakdown?.edges ?? [])
        .filter(({ node }) => node.metrics.conversions)
        .map(({ node: { value, metrics: m } }) => [value, 'event', m.visitors, m.comparison?.visitors ?? null]);
      for (const { name, filters: own } of named?.segments.filter(isPageGoal).slice(0, mostPageGoals) ?? []) {
        const variables = { id, period, compare, filters: [...filters, ...(own as Filter[])], search: null };
        const found = (await read(() => pageGoal(variables, signal)))?.site?.report?.totals;
        if (found) lines.push([name, 'page', found.visitors, found.comparison?.visitors ?? null]);
      }
      const rate = (visitors: number): number | null => rounded(report!.totals.visitors ? (100 * visitors) / report!.totals.visitors : null);
      add(files, 'goals', ['goal', 'kind', 'visitors', 'compared_visitors', 'rate'], lines.map((line) => [...line, rate(line[2] as number)]));
    },
    ...saved.map(({ name, steps }) => async (files: Files) => {
      const variables = { ...selection, id, steps: steps.map(({ page, event }) => ({ page, event })) };
      const found = (await patient(() => funnelFigures(variables, signal))).site?.report?.funnel.steps ?? [];
      const lines = found.map((s, i) => [name, i + 1, s.step.label, s.visitors, rounded(s.fromPrevious), s.comparedVisitors]);
      add(files, 'funnels', ['funnel', 'step', 'label', 'visitors', 'from_previous', 'compared_visitors'], lines);
    }),
    ...froms.map(({ from, value }) => async (files: Files) => {
      const variables = { ...of, from, direction: 'NEXT' as const };
      const tree = (await read(() => reading(id, journey, sharedJourney)(variables, signal)))?.report?.journey;
      add(files, 'journeys', ['from', 'step_1', 'step_2', 'step_3', 'visits'], tree ? ways(value, [], tree.next) : []);
    }),
    async (files) => {
      const weeks = (await read(() => reading(id, cohorts, sharedCohorts)(of, signal)))?.report?.cohorts?.weeks ?? [];
      const lines = weeks.flatMap(({ start, users, returned }) => [
        [start, 0, users, null],
        ...returned.map((r) => [start, r.week, r.users, rounded(r.rate)]),
      ]);
      add(files, 'cohorts', ['first_week', 'later_week', 'users', 'rate'], lines);
    },
  ];
}

type Node = JourneyStep & { next?: Node[] };

/** ways returns a line for each way of a journey: its pages, and what else visits did, with their number. */
const ways = (from: string, before: string[], nodes: Node[]): Cells =>
  nodes.flatMap(({ kind, page, visits, next }) => {
    const way = [...before, page ?? `(${kind.toLowerCase()})`];
    return [[from, way[0]!, way[1] ?? '', way[2] ?? '', visits], ...ways(from, way, next ?? [])];
  });
