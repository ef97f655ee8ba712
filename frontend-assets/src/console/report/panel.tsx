// A panel of a report: the ten most frequent values of a dimension. Each is a filter.
import type { ComponentChildren } from 'preact';
import { useQuery } from '../core/data';
import { exact, percent } from '../core/format';
import { t } from '../core/language';
import { Change } from '../core/metrics';
import { link as shared, reading } from '../core/source';
import { Failed, Loading } from '../core/states';
import { share } from '../core/ui';
import { coded, dimensionText, isPlain, isSource, isTime, valueText } from '../core/values';
import { addressOf, type Panel as PanelName, panelTabs, selectionOf, type View, withFilter } from '../core/view';
import { panel, sharedPanel, type PanelRows, type ReportDimension, type ReportFields } from '../operations';

/** Drilldown is the module of what panels show in addition to their bars, once it is loaded. */
export type Drilldown = typeof import('../drilldown') | undefined;

/** rowsOf returns how many rows the panel of a dimension has at most: every hour, else ten. */
export const rowsOf = (dimension: string): number => (isTime(dimension) ? 24 : 10);

/**
 * Panel shows one dimension of a panel; its tabs choose which. The first view has asked for the rows of tabs. Until
 * the answer, the panel shows the earlier rows, which are rows of shown.
 */
export function Panel(props: {
  id: string;
  name: Exclude<PanelName, 'revenue'>;
  view: View;
  report: ReportFields | null;
  tabs: Record<string, string>;
  shown: Record<string, string>;
  drilldown: Drilldown;
  children?: ComponentChildren;
}) {
  const { id, name, view, drilldown } = props;
  const tab = view.tabs[name]!;
  return (
    <section class="card panel" aria-label={t(`panel.${name}`)}>
      <h2>{t(`panel.${name}`)}</h2>
      <PanelTabs id={id} name={name} view={view} />
      {props.children ??
        (tab === props.tabs[name] ? (
          <Rows id={id} dimension={props.shown[name]!} view={view} rows={props.report![name]} drilldown={drilldown} />
        ) : (
          <DimensionRows key={tab} id={id} dimension={tab} view={view} drilldown={drilldown} />
        ))}
    </section>
  );
}

/** isLeftOut reports whether a tab is missing for readers of a link: funnels, and without revenue also properties. */
export const isLeftOut = (id: string, tab: string): boolean =>
  !id && (tab === 'FUNNEL' || (tab === 'PROPERTY' && !!shared.hidesRevenue));

/** groupOf returns the name of the tab that has a tab in a second line. Revenue has no such tabs. */
const groupOf = (tab: string): 'campaigns' | 'more' | '' =>
  /^UTM|^AD/.test(tab) ? 'campaigns' : /^(SOURCE(_GROUP)?|REF.*|BRO.*|SYS.*|SCR.*|DAY.*)$/.test(tab) ? 'more' : '';

/** PanelTabs are the dimensions of a panel in one line. Campaigns and rarely used ones have a line of their own. */
export function PanelTabs({ id, name, view }: { id: string; name: PanelName; view: View }) {
  const current = view.tabs[name]!;
  const group = name === 'revenue' ? () => '' : groupOf;
  const link = (tab: string, text: string, marked: boolean) => (
    <a key={tab} href={addressOf(view, { tabs: { ...view.tabs, [name]: tab } })} aria-current={marked || undefined}>
      {text}
    </a>
  );

  const tabs = (panelTabs[name] as readonly string[]).filter((tab) => !isLeftOut(id, tab));
  const of = (wanted: string): string[] => tabs.filter((tab) => group(tab) === wanted);
  const open = group(current);
  return (
    <>
      <nav class="tabs" aria-label={t(`panel.${name}`)}>
        {of('').map((tab) => link(tab, dimensionText(tab), tab === current))}
        {(['campaigns', 'more'] as const).map((group) => of(group)[0] && link(of(group)[0]!, t(`panel.${group}`), group === open))}
      </nav>
      {open && (
        <nav class="subtabs" aria-label={t(`panel.${open}` as 'panel.more')}>
          {of(open).map((tab) => link(tab, dimensionText(tab), tab === current))}
        </nav>
      )}
    </>
  );
}

/** DimensionRows reads the rows of a dimension that the first view did not ask for. */
export function DimensionRows(props: {
  id: string;
  dimension: string;
  view: View;
  property?: string;
  event?: string;
  drilldown: Drilldown;
}) {
  const { id, dimension, view, property, event } = props;
  const by = dimension as ReportDimension;
  const variables = { ...selectionOf(view), by, property: property || null, event: event || null, first: rowsOf(dimension) };
  const query = useQuery(reading(id, panel, sharedPanel), variables, true);

  const failure = query.error ?? query.part;
  if (failure) return <Failed failure={failure} retry={query.reload} />;
  if (!query.data) return <Loading />;
  return (
    <div class="later" aria-busy={query.busy}>
      <Rows {...props} rows={query.data.report?.breakdown ?? null} />
    </div>
  );
}

type Row = PanelRows['edges'][number]['node'];

/** listOf returns the rows of a panel: those of times in their natural order, also without visitors. */
function listOf(dimension: string, rows: PanelRows | null): Row[] {
  const list = rows?.edges.map((edge) => edge.node) ?? [];
  if (!isTime(dimension) || !list[0]) return list;

  const hours = dimension === 'HOUR_OF_DAY';
  const none: Row['metrics'] = { visitors: 0, share: null, comparison: null };
  return Array.from({ length: hours ? 24 : 7 }, (_, i) => {
    const value = hours ? String(i).padStart(2, '0') : String(i + 1);
    return list.find((row) => row.value === value) ?? { value, onlyImported: false, metrics: none };
  });
}

/** Rows are a panel's bars, or the columns of the hours. Each is a link that adds a filter of its value, unless no filter finds it. */
function Rows(props: {
  id: string;
  dimension: string;
  view: View;
  rows: PanelRows | null;
  property?: string | undefined;
  event?: string | undefined;
  drilldown: Drilldown;
}) {
  const { dimension, view, rows, property, event, drilldown } = props;
  const list = listOf(dimension, rows);
  const name = property || dimensionText(dimension);
  const most = Math.max(...list.map(({ metrics }) => metrics.visitors), 1);
  return (
    <>
      {list[0] && (
        <a class="all" href={addressOf(view, { all: dimension, property: property ?? '', event: event ?? '' })}>
          {t('panel.details')}
          <span class="sr">, {t('panel.all', { n: rows!.totalCount, what: name })}</span>
        </a>
      )}
      {!list[0] ? (
        <p class="none">{t('panel.none')}</p>
      ) : dimension === 'HOUR_OF_DAY' ? (
        drilldown ? (
          <drilldown.Hours view={view} list={list} />
        ) : <Loading />
      ) : (
        <div role="table" aria-label={name}>
          <p class="head" role="row">
            <span role="columnheader">{name}</span>
            <span role="columnheader">{t('metric.visitors')}</span>
            <span role="columnheader" class="portion" aria-label={t('metric.share')}>%</span>
          </p>
          <div class={dimension in coded ? 'ranks coded' : 'ranks'} role="rowgroup">
            {list.map((row) => (
              <Bar key={row.value} {...props} row={row} most={most} />
            ))}
          </div>
        </div>
      )}
      {drilldown && rows && <drilldown.Hints id={props.id} rows={rows} dimension={dimension} />}
    </>
  );
}

/** Bar is a row of a panel. */
function Bar(props: Parameters<typeof Rows>[0] & { row: Row; most: number }) {
  const { dimension, view, property, event, row, most, drilldown } = props;
  const { value, metrics } = row;
  const filter = {
    dimension: dimension as ReportDimension,
    ...(property && { property }),
    ...(event && { event }),
    operator: 'IS' as const,
    values: [value],
  };
  const text = valueText(dimension, value);
  const isKey = !!(metrics as { conversions?: number }).conversions; // only rows of events have it
  const label = drilldown && dimension === 'EVENT' ? <drilldown.EventLabel name={value} isKey={isKey} /> : text;
  return (
    <div role="row" style={share(metrics.visitors, most)}>
      <span role="rowheader" title={text === value ? undefined : value}>
        {drilldown && isSource(dimension) && <drilldown.Icon source={value} />}
        {isPlain(dimension, row) ? (
          <span>{label}</span>
        ) : (
          <a href={addressOf(view, { filters: withFilter(view.filters, filter) })} title={t('filter.by', { value: text })}>
            {label}
          </a>
        )}
      </span>
      <span role="cell" class="figure">
        {exact(metrics.visitors)}
        {metrics.comparison && (
          <>
            {' '}
            <span class="delta"><Change now={metrics.visitors} before={metrics.comparison.visitors} /></span>
          </>
        )}
      </span>
      <span role="cell" class="portion">{metrics.share !== null && percent(metrics.share)}</span>
    </div>
  );
}
