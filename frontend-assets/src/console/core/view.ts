// The view of a site's page, as the URL has it: period, comparison, filters, and open parts.
import type {
  MetricFields,
  ReportComparison,
  ReportComparisonKind,
  ReportDimension,
  ReportFilterInput,
  ReportInterval,
  ReportOperator,
  ReportPeriod,
  ReportPreset,
  SetReportViewInput,
  ViewFields,
} from '../operations';

/** Filter is a filter of the visits. Values are alternatives. */
export interface Filter {
  dimension: ReportDimension;
  property?: string;
  event?: string;
  operator: ReportOperator;
  values: string[];
}

/** Metric is a figure that the page shows in its totals and in the chart. */
export type Metric = keyof MetricFields;

/** View is the state of a site's page. Empty texts stand for defaults. */
export interface View {
  /** A key of periods. Empty if from and to are set, or if the server chooses the period. */
  period: string;
  /** The first and last day, YYYY-MM-DD. */
  from: string;
  to: string;
  /** previous, year, or the first day of the period to compare with. */
  compare: string;
  /** Whether a comparison keeps the dates instead of the days of the week. */
  dates: boolean;
  filters: Filter[];
  /** The name of the segment that the filters begin with, and the number of its filters. */
  segment: string;
  inSegment: number;
  metric: Metric;
  /** hour, day, week or month: the length of a point of the chart. Without one the server chooses it. */
  interval: string;
  /** Whether the chart shows a moving average. */
  smooth: boolean;
  /** Whether the chart is shown as a table. */
  table: boolean;
  /** The chosen tab of each panel. */
  tabs: Record<string, string>;
  /** The dimension that is open as a whole table, with its property and event. */
  all: string;
  /** Its order, such as "pageviews" or "pageviews.asc", and the text that its values contain. */
  order: string;
  search: string;
  property: string;
  event: string;
  /** The id of the chosen funnel. */
  funnel: string;
  /** The page or event of which journeys are open, and whether they show what came before. */
  journey: string;
  before: boolean;
}

/** periods are the presets by their names in the URL, with the letters that choose them. */
export const periods = {
  today: ['TODAY', 'D'],
  yesterday: ['YESTERDAY', 'E'],
  '7d': ['LAST_7_DAYS', 'W'],
  '28d': ['LAST_28_DAYS', 'F'],
  '30d': ['LAST_30_DAYS', 'T'],
  '91d': ['LAST_91_DAYS', 'N'],
  month: ['MONTH_TO_DATE', 'M'],
  'last-month': ['LAST_MONTH', 'P'],
  year: ['YEAR_TO_DATE', 'Y'],
  '12m': ['LAST_12_MONTHS', 'L'],
  all: ['ALL_TIME', 'A'],
} as const satisfies Record<string, readonly [ReportPreset, string]>;

/** Period is the name of a preset. */
export type Period = keyof typeof periods;

/** panelTabs are the tabs of each panel. */
export const panelTabs = {
  sources: ['CHANNEL', 'SOURCE_GROUP', 'SOURCE_NAME', 'SOURCE', 'REFERRER', 'UTM_CAMPAIGN', 'UTM_SOURCE', 'UTM_MEDIUM', 'UTM_CONTENT', 'UTM_TERM', 'AD_PLATFORM'],
  pages: ['PAGE', 'ENTRY_PAGE', 'EXIT_PAGE', 'HOSTNAME'],
  audience: ['COUNTRY', 'DEVICE', 'LANGUAGE', 'HOUR_OF_DAY', 'DAY_OF_WEEK', 'BROWSER', 'SYSTEM', 'SCREEN_WIDTH'],
  events: ['EVENT', 'GOAL', 'PROPERTY', 'FUNNEL', 'JOURNEY', 'COHORT'],
  revenue: ['CHANNEL', 'SOURCE_NAME', 'SOURCE', 'ENTRY_PAGE', 'PAGE'],
} as const;

/** firstTab returns the tab that is open by default. Most sites keep no details of visits, so it is none of these. */
const firstTab = (tabs: readonly string[]): string => (tabs[0] === 'COUNTRY' ? 'LANGUAGE' : tabs[0]!);

/** Panel is the name of a panel. */
export type Panel = keyof typeof panelTabs;

const dimensions: readonly string[] = Object.values(panelTabs)
  .flat()
  .filter((tab) => !/GOAL|FUNNEL|JOURNEY|COHORT/.test(tab));

const operators = ['is', 'is_not', 'contains', 'contains_not', 'matches', 'matches_not'];
const shown: readonly string[] = ['visits', 'pageviews', 'viewsPerVisit', 'bounceRate', 'engagementTime', 'conversionRate'];
const intervals = ['hour', 'day', 'week', 'month'];
const day = /^\d{4}-\d\d-\d\d$/;

/** viewOf reads a view from the parameters of an address. It ignores invalid parameters. */
export function viewOf(query: URLSearchParams): View {
  const text = (name: string): string => query.get(name) ?? '';
  const from = text('from');
  const to = text('to');
  const custom = day.test(from) && day.test(to);
  const period = Object.hasOwn(periods, text('period')) ? text('period') : '';
  const compare = text('compare');

  const tabs: Record<string, string> = {};
  for (const [panel, values] of Object.entries(panelTabs)) {
    const wanted = text(panel).toUpperCase();
    tabs[panel] = values.find((value) => value === wanted) ?? firstTab(values);
  }

  const filters = query.getAll('f').flatMap(filterOf).slice(0, 10);
  return {
    period: custom ? '' : period,
    from: custom ? from : '',
    to: custom ? to : '',
    compare: compare === 'previous' || compare === 'year' || day.test(compare) ? compare : '',
    dates: query.has('dates'),
    filters,
    segment: text('segment'),
    inSegment: Number(text('in')) || filters.length,
    metric: (shown.includes(text('metric')) ? text('metric') : 'visitors') as Metric,
    interval: intervals.find((name) => name === text('interval')) ?? '',
    smooth: query.has('smooth'),
    table: query.has('table'),
    tabs,
    all: dimensions.includes(text('all').toUpperCase()) ? text('all').toUpperCase() : '',
    order: text('order'),
    search: text('q'),
    property: text('property'),
    event: text('event'),
    funnel: tabs['events'] === 'FUNNEL' ? text('funnel') : '',
    journey: text('journey'),
    before: query.has('before'),
  };
}

/** opened completes a view whose address has no period: by the period and the comparison with which the report opens. */
export function opened(view: View, opens: ViewFields | undefined): View {
  if (view.period || view.from) return view;

  const period = Object.keys(periods).find((name) => periods[name as Period][0] === opens?.preset) ?? '28d';
  const compare = opens?.compare && (opens.compare === 'PREVIOUS_YEAR' ? 'year' : 'previous');
  return { ...view, period, ...(compare && !view.compare && { compare, dates: !opens.matchDayOfWeek }) };
}

/** choiceOf returns what the server keeps of a view: undefined for a view with chosen dates, which are never kept. */
export function choiceOf({ period, compare, dates }: View): Omit<SetReportViewInput, 'siteId'> | undefined {
  if (!period || day.test(compare)) return undefined;
  return {
    preset: periods[period as Period][0],
    compare: compare ? kindOf(compare) : null,
    matchDayOfWeek: !dates,
  };
}

const kindOf = (compare: string): ReportComparisonKind => (compare === 'year' ? 'PREVIOUS_YEAR' : 'PREVIOUS_PERIOD');

/**
 * addressOf returns the query of a view with some changes, beginning with "?". Defaults are left out. A change of the
 * period drops the interval, which may not fit. The fragment of the page is kept, because it is the token of a shared link.
 */
export function addressOf(view: View, changes: Partial<View> = {}): string {
  const v = { ...view, ...changes };
  const parts: [string, string][] = [];
  const add = (name: string, value: string): void => void (value && parts.push([name, value]));

  if (v.from && v.to) {
    add('from', v.from);
    add('to', v.to);
  } else add('period', v.period);

  add('compare', v.compare);
  if (v.dates) add('dates', '1');
  for (const filter of v.filters) add('f', filterText(filter));

  // A segment is in use while all its filters are.
  const own = v.filters.slice(0, v.inSegment);
  if (v.segment && (changes.segment || view.filters.slice(0, view.inSegment).every((filter, i) => own[i] === filter))) {
    add('segment', v.segment);
    if (own.length < v.filters.length) add('in', String(own.length));
  }
  if (v.metric !== 'visitors') add('metric', v.metric);
  if (!('period' in changes || 'from' in changes)) add('interval', v.interval);
  if (v.smooth) add('smooth', '1');
  if (v.table) add('table', '1');
  for (const [panel, tabs] of Object.entries(panelTabs)) {
    const tab = v.tabs[panel] ?? '';
    if (tab !== firstTab(tabs)) add(panel, tab.toLowerCase());
  }
  add('all', v.all.toLowerCase());
  if (v.all) {
    add('order', v.order);
    add('q', v.search);
  }
  add('property', v.property);
  add('event', v.event);
  if (v.tabs['events'] === 'FUNNEL') add('funnel', v.funnel);
  add('journey', v.journey);
  if (v.journey && v.before) add('before', '1');

  return '?' + parts.map(([name, value]) => name + '=' + readable(value)).join('&') + location.hash;
}

/** readable encodes a parameter, and leaves signs that need no encoding in a query. */
const readable = (value: string): string =>
  encodeURIComponent(value).replace(/%(?:2F|3A|2C|40)/g, (code) => decodeURIComponent(code));

/** filterText writes a filter: "page:is:/a,/b", "property:plan:signup:is:pro". Signs in values are escaped. */
function filterText(f: Filter): string {
  const names = f.dimension === 'PROPERTY' ? [f.property ?? '', f.event ?? ''] : [];
  const head = [f.dimension.toLowerCase(), ...names.map(escaped), f.operator.toLowerCase()];
  return [...head, f.values.map(escaped).join(',')].join(':');
}

const escaped = (text: string): string => text.replace(/[\\,:]/g, '\\$&');

/** filterOf reads a filter. It returns [] for an invalid filter. */
function filterOf(text: string): Filter[] {
  const parts = split(text, ':');
  const dimension = parts.shift()?.toUpperCase() ?? '';
  if (!dimensions.includes(dimension)) return [];

  const names = dimension === 'PROPERTY' ? parts.splice(0, 2).map(plain) : [];
  const operator = parts.shift() ?? '';
  if (!operators.includes(operator) || parts.length !== 1) return [];

  const [property, event] = names;
  if (dimension === 'PROPERTY' && !property) return [];
  return [
    {
      dimension: dimension as ReportDimension,
      ...(property && { property }),
      ...(event && { event }),
      operator: operator.toUpperCase() as ReportOperator,
      values: split(parts[0]!, ',').map(plain).slice(0, 50),
    },
  ];
}

/** split separates a text at a sign that no backslash precedes. */
function split(text: string, sign: string): string[] {
  const parts: string[] = [];
  let part = '';
  for (let i = 0; i < text.length; i++) {
    if (text[i] === sign) {
      parts.push(part);
      part = '';
    } else part += text[i] === '\\' ? text[i]! + (text[++i] ?? '') : text[i];
  }
  parts.push(part);
  return parts;
}

const plain = (text: string): string => text.replace(/\\(.)/gs, '$1');

/** Selection is the part of a view that decides which visits are counted. */
export type Selection = { period: ReportPeriod | null; filters: ReportFilterInput[]; compare: ReportComparison | null };

/** selectionOf returns a view's part of the variables of the operations with a report. Without a period the server chooses it. */
export function selectionOf(view: View): Selection {
  const { period, from, to, compare } = view;
  const other = day.test(compare) ? { from: compare } : { kind: kindOf(compare) };
  return {
    period: from ? { from, to } : period ? { preset: periods[period as Period][0] } : null,
    filters: view.filters,
    compare: compare && period !== 'all' ? { ...other, matchDayOfWeek: !view.dates } : null,
  };
}

/** intervalOf returns the interval of a view for the operations with a report: null for the server's choice. */
export const intervalOf = ({ interval }: View): ReportInterval | null => (interval.toUpperCase() as ReportInterval) || null;

/** withFilter adds a filter to filters. It replaces a filter of the same dimension and operator. */
export function withFilter(filters: Filter[], added: Filter): Filter[] {
  const same = (f: Filter): boolean =>
    f.dimension === added.dimension &&
    f.property === added.property &&
    f.event === added.event &&
    f.operator === added.operator;
  return [...filters.filter((f) => !same(f)), added];
}
