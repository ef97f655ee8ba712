// A panel of a report: the ten most frequent values of a dimension. Each is a filter.
import type { ComponentChildren, ComponentType } from 'preact';
import { useQuery } from '../core/data';
import { exact, percent } from '../core/format';
import { t } from '../core/language';
import { Change } from '../core/metrics';
import { link as shared, reading } from '../core/source';
import { Failed, Loading } from '../core/states';
import { share } from '../core/ui';
import { dimensionText, isPlain, isTime, valueText } from '../core/values';
import { addressOf, type Panel as PanelName, panelTabs, selectionOf, type View, withFilter } from '../core/view';
import { panel, sharedPanel, type PanelRows, type ReportDimension } from '../operations';

/** Hints explains the rows of a panel, once it is loaded. */
export type Hints = ComponentType<{ id: string; rows: PanelRows; dimension: string }> | undefined;

/** rowsOf returns how many rows the panel of a dimension has at most: every hour, else ten. */
export const rowsOf = (dimension: string): number => (isTime(dimension) ? 24 : 10);

/** Panel shows one dimension of a panel; its tabs choose which. loaded has the rows of the first view. */
export function Panel(props: {
  id: string;
  name: PanelName;
  view: View;
  loaded: PanelRows | null;
  loadedTab: string;
  Hints: Hints;
  children?: ComponentChildren;
}) {
  const { id, name, view } = props;
  const tab = view.tabs[name]!;
  return (
    <section class="card panel" aria-label={t(`panel.${name}`)}>
      <h2 class="sr">{t(`panel.${name}`)}</h2>
      <PanelTabs id={id} name={name} view={view} />
      {props.children ??
        (tab === props.loadedTab ? (
          <Rows id={id} dimension={tab} view={view} rows={props.loaded} Hints={props.Hints} />
        ) : (
          <DimensionRows key={tab} id={id} dimension={tab} view={view} Hints={props.Hints} />
        ))}
    </section>
  );
}

/** PanelTabs are the dimensions of a panel. The campaign values have a line of their own. Readers of a link have no funnels. */
function PanelTabs({ id, name, view }: { id: string; name: PanelName; view: View }) {
  const current = view.tabs[name]!;
  const isCampaign = (tab: string): boolean => tab.startsWith('UTM_') || tab === 'AD_PLATFORM';
  const link = (tab: string, text: string, marked: boolean) => (
    <a key={tab} href={addressOf(view, { tabs: { ...view.tabs, [name]: tab } })} aria-current={marked || undefined}>
      {text}
    </a>
  );

  const left = id ? '' : 'FUNNEL' + (shared.hidesRevenue ? ' PROPERTY' : '');
  const tabs = (panelTabs[name] as readonly string[]).filter((tab) => !left.includes(tab));
  const campaigns = tabs.filter(isCampaign);
  return (
    <>
      <nav class="tabs" aria-label={t(`panel.${name}`)}>
        {tabs.filter((tab) => !isCampaign(tab)).map((tab) => link(tab, dimensionText(tab), tab === current))}
        {campaigns[0] && link(campaigns[0], t('panel.campaigns'), isCampaign(current))}
      </nav>
      {isCampaign(current) && (
        <nav class="subtabs" aria-label={t('panel.campaigns')}>
          {campaigns.map((tab) => link(tab, dimensionText(tab), tab === current))}
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
  Hints: Hints;
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
      <Rows
        id={id}
        dimension={dimension}
        view={view}
        rows={query.data.report?.breakdown ?? null}
        property={property}
        event={event}
        Hints={props.Hints}
      />
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

/** Rows are a panel's bars. Each is a link that adds a filter of its value, unless no filter finds it. */
function Rows(props: {
  id: string;
  dimension: string;
  view: View;
  rows: PanelRows | null;
  property?: string | undefined;
  event?: string | undefined;
  Hints: Hints;
}) {
  const { dimension, view, rows, property, event, Hints } = props;
  const list = listOf(dimension, rows);
  const name = property || dimensionText(dimension);
  const most = Math.max(...list.map(({ metrics }) => metrics.visitors), 1);
  return (
    <>
      {list[0] ? (
        <div role="table" aria-label={name}>
          <p class="head" role="row">
            <span role="columnheader">{name}</span>
            <span role="columnheader">{t('metric.visitors')}</span>
          </p>
          <div class="ranks" role="rowgroup">
            {list.map((row) => (
              <Bar key={row.value} {...props} row={row} most={most} />
            ))}
          </div>
        </div>
      ) : (
        <p class="none">{t('panel.none')}</p>
      )}
      {Hints && rows && <Hints id={props.id} rows={rows} dimension={dimension} />}
      {list[0] && (
        <p class="all">
          <a href={addressOf(view, { all: dimension, property: property ?? '', event: event ?? '' })}>
            {t('panel.all', { n: rows!.totalCount, what: name })}
          </a>
        </p>
      )}
    </>
  );
}

/** Bar is a row of a panel. */
function Bar(props: Parameters<typeof Rows>[0] & { row: Row; most: number }) {
  const { dimension, view, property, event, row, most } = props;
  const { value, metrics } = row;
  const filter = {
    dimension: dimension as ReportDimension,
    ...(property && { property }),
    ...(event && { event }),
    operator: 'IS' as const,
    values: [value],
  };
  const text = valueText(dimension, value);
  return (
    <div role="row" style={share(metrics.visitors, most)}>
      <span role="rowheader" title={text === value ? undefined : value}>
        {isPlain(dimension, row) ? (
          text
        ) : (
          <a
            href={addressOf(view, { filters: withFilter(view.filters, filter) })}
            title={t('filter.by', { value: text })}
          >
            {text}
          </a>
        )}
      </span>
      <span role="cell" class="figure" title={metrics.share === null ? undefined : percent(metrics.share)}>
        {exact(metrics.visitors)}
        {metrics.comparison && (
          <>
            {' '}
            <span class="delta">
              <Change now={metrics.visitors} before={metrics.comparison.visitors} />
            </span>
          </>
        )}
      </span>
    </div>
  );
}
