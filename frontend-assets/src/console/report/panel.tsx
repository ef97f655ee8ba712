// A panel of a report: the ten most frequent values of a dimension. Each is a filter.
import type { ComponentChildren } from 'preact';
import { useQuery } from '../core/data';
import { exact, percent } from '../core/format';
import { t } from '../core/language';
import { Change, dimensionText, valueText } from '../core/metrics';
import { reading } from '../core/source';
import { Failed, Loading } from '../core/states';
import { share } from '../core/ui';
import { addressOf, type Panel as PanelName, panelTabs, selectionOf, type View, withFilter } from '../core/view';
import { panel, sharedPanel, type PanelRows, type ReportDimension } from '../operations';

/** Panel shows one dimension of a panel; its tabs choose which. loaded has the rows of the first view. */
export function Panel(props: {
  id: string;
  name: PanelName;
  view: View;
  loaded: PanelRows | null;
  loadedTab: string;
  children?: ComponentChildren;
}) {
  const { id, name, view } = props;
  const tab = view.tabs[name]!;
  return (
    <section class="card panel" aria-label={t(`panel.${name}`)}>
      <PanelTabs id={id} name={name} view={view} />
      {props.children ??
        (tab === props.loadedTab ? (
          <Rows dimension={tab} view={view} rows={props.loaded} />
        ) : (
          <DimensionRows key={tab} id={id} dimension={tab} view={view} />
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

  const tabs = (panelTabs[name] as readonly string[]).filter((tab) => id || tab !== 'FUNNEL');
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
export function DimensionRows(props: { id: string; dimension: string; view: View; property?: string; event?: string }) {
  const { id, dimension, view, property, event } = props;
  const by = dimension as ReportDimension;
  const variables = { ...selectionOf(view), by, property: property || null, event: event || null };
  const query = useQuery(reading(id, panel, sharedPanel), variables, true);

  const failure = query.error ?? query.part;
  if (failure) return <Failed failure={failure} retry={query.reload} />;
  if (!query.data) return <Loading />;
  return (
    <div aria-busy={query.busy}>
      <Rows
        dimension={dimension}
        view={view}
        rows={query.data.report?.breakdown ?? null}
        property={property}
        event={event}
      />
    </div>
  );
}

/** Rows are a panel's bars. Each is a link that adds a filter of its value. */
function Rows(props: {
  dimension: string;
  view: View;
  rows: PanelRows | null;
  property?: string | undefined;
  event?: string | undefined;
}) {
  const { dimension, view, rows, property, event } = props;
  const list = rows?.edges ?? [];
  if (list.length === 0) return <p class="none">{t('panel.none')}</p>;

  const most = Math.max(...list.map(({ node }) => node.metrics.visitors), 1);
  const filterable = dimension !== 'DAY_OF_WEEK' && dimension !== 'HOUR_OF_DAY';
  return (
    <>
      <p class="head" aria-hidden="true">
        <span>{property || dimensionText(dimension)}</span>
        <span>{t('metric.visitors')}</span>
      </p>
      <ol class="ranks">
        {list.map(({ node: { value, metrics } }) => {
          const filter = {
            dimension: dimension as ReportDimension,
            ...(property && { property }),
            ...(event && { event }),
            operator: 'IS' as const,
            values: [value],
          };
          const text = <span>{valueText(dimension, value)}</span>;
          return (
            <li key={value} style={share(metrics.visitors, most)}>
              {filterable ? (
                <a
                  href={addressOf(view, { filters: withFilter(view.filters, filter) })}
                  title={t('filter.by', { value: valueText(dimension, value) })}
                >
                  {text}
                </a>
              ) : (
                text
              )}
              <span class="figure" title={metrics.share === null ? undefined : percent(metrics.share)}>
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
            </li>
          );
        })}
      </ol>
      <p class="all">
        <a href={addressOf(view, { all: dimension, property: property ?? '', event: event ?? '' })}>
          {t('panel.all', { n: rows!.totalCount, what: property || dimensionText(dimension) })}
        </a>
      </p>
    </>
  );
}
