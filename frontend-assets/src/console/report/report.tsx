// A site's figures: controls, totals, chart and panels. The URL holds their choices.
import { useCallback, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { Failure } from '../core/api';
import { useQuery } from '../core/data';
import { clock, exact, money } from '../core/format';
import { t } from '../core/language';
import { Change, metricText, metricValue, totals } from '../core/metrics';
import { loadModule } from '../core/modules';
import { go, useURL } from '../core/router';
import { Failed, Loading, Skeleton } from '../core/states';
import { type PageKey, pageKeys } from '../core/store';
import { isDetail, isUnassigned } from '../core/values';
import { addressOf, choiceOf, opened, periods, selectionOf, type View, viewOf } from '../core/view';
import { setReportView, type ReportDimension, type ReportFields, type RevenueFields, type ViewFields } from '../operations';
import { Chart, days, type Note } from './chart';
import { Chips, Controls, periodText, type Opens } from './controls';
import { DimensionRows, Panel } from './panel';

type Drilldown = typeof import('../drilldown');

/** useView returns the view of the current address. */
export const useView = (): View => viewOf(useURL().searchParams);

/** useTabs returns the dimensions that the first view asks for: the tabs that were open when the visits changed. */
export function useTabs(view: View): Record<'sources' | 'pages' | 'audience', ReportDimension> {
  const key = addressOf({ ...view, tabs: {}, table: false, metric: 'visitors', all: '', property: '', event: '', funnel: '' });
  const held = useRef({ key: '', tabs: view.tabs });
  if (held.current.key !== key) held.current = { key, tabs: view.tabs };
  const { sources, pages, audience } = held.current.tabs;
  return { sources, pages, audience } as Record<'sources' | 'pages' | 'audience', ReportDimension>;
}

/** Report shows the figures of a view. Without an id it belongs to a shared link, without segments and funnels. */
export function Report(props: {
  id: string;
  /** The view of the address. */
  asked: View;
  opens: ViewFields;
  report: ReportFields | null;
  failure: Failure | undefined;
  retry(): void;
  busy: boolean;
  tabs: Record<string, string>;
  notes: Note[];
}) {
  const { id, report, failure, tabs } = props;
  const view = opened(props.asked, props.opens);
  const choose = useChoice(id, props.opens);
  const [opens, open] = useState<Opens>('');
  const first = useRef(view);
  const needed = useRef(false);
  needed.current ||=
    opens !== '' || !!report?.imports[0] || isUnassigned(report?.sources?.edges) || needsDrilldown(view, first.current);
  const loaded = useQuery(loadDrilldown, { needed: needed.current });
  const drilldown = loaded.data?.module;
  useKeys(id, view, open, choose);

  const close = (): void => open('');
  return (
    <>
      <Controls id={id} view={view} open={open} choose={choose} />
      <Chips view={view} />
      <p class="sr" role="status">
        {drilldown && <drilldown.Changes first={first.current} view={view} report={report} busy={props.busy} />}
      </p>
      {loaded.error && <Failed failure={loaded.error} retry={loaded.reload} />}
      {failure && <Failed failure={failure} retry={props.retry} />}
      {failure && report && <p class="hint">{t('report.asOf', { days: days(report), time: clock(report.asOf) })}</p>}
      {report ? (
        <div class="figures" aria-busy={props.busy}>
          {report.totals.visits + report.totals.pageviews === 0 && <Nothing view={view} />}
          <Totals view={view} report={report} />
          <Chart
            report={report}
            metric={view.metric}
            notes={props.notes}
            table={view.table}
            toggle={addressOf(view, { table: !view.table })}
            AsTable={drilldown?.AsTable}
          >
            {drilldown && report.imports[0] && <drilldown.Imported report={report} view={view} />}
          </Chart>
          <div class="panels">
            <Panel id={id} name="sources" view={view} loaded={report.sources} loadedTab={tabs['sources']!} Hints={drilldown?.Hints} />
            <Panel id={id} name="pages" view={view} loaded={report.pages} loadedTab={tabs['pages']!} Hints={drilldown?.Hints} />
            <Panel id={id} name="audience" view={view} loaded={report.audience} loadedTab={tabs['audience']!} Hints={drilldown?.Hints} />
            <Panel id={id} name="events" view={view} loaded={report.events} loadedTab="EVENT" Hints={drilldown?.Hints}>
              {view.tabs['events'] === 'EVENT' ? undefined : !drilldown ? (
                <Loading />
              ) : view.tabs['events'] === 'PROPERTY' ? (
                <drilldown.Properties id={id} view={view} Rows={DimensionRows} />
              ) : (
                <drilldown.Funnels id={id} view={view} />
              )}
            </Panel>
            {report.totals.revenue.length > 0 && <Revenue report={report} />}
          </div>
        </div>
      ) : (
        !failure && <Skeleton />
      )}
      {drilldown && view.all && (
        <drilldown.WholeTable key={view.all + view.property} id={id} view={view} onClose={() => go(addressOf(view, { all: '', order: '', search: '', property: '', event: '' }))} />
      )}
      {drilldown && opens === 'dates' && <drilldown.Dates view={view} report={report} onClose={close} />}
      {drilldown && opens === 'compare' && <drilldown.ComparedDates view={view} report={report} onClose={close} />}
      {drilldown && opens === 'filter' && <drilldown.FilterDialog id={id} view={view} onClose={close} />}
      {drilldown && opens === 'segments' && <drilldown.Segments id={id} view={view} onClose={close} />}
    </>
  );
}

/** loadDrilldown loads the module of what is opened on demand, once it is needed. */
export const loadDrilldown = async ({ needed }: { needed: boolean }): Promise<{ module?: Drilldown }> =>
  needed ? { module: await loadModule(() => import('../drilldown')) } : {};

/** Choose changes the period or the comparison. A function returns the changes of the view of that time. */
export type Choose = (changes: (now: View) => Partial<View>) => void;

/** useChoice returns the function that shows another period or comparison, and keeps it in the account. */
function useChoice(id: string, opens: ViewFields): Choose {
  const known = useRef(opens);
  known.current = opens;
  return useCallback((changes) => {
    const now = opened(viewOf(new URLSearchParams(location.search)), known.current);
    const next = { ...now, ...changes(now) };

    // Without its period the entry of the history would show what is chosen now.
    go(addressOf(now), true);
    go(addressOf(next));

    const chosen = choiceOf(next);
    if (id && chosen && JSON.stringify(chosen) !== JSON.stringify(choiceOf(now)))
      setReportView({ input: { siteId: id, ...chosen } }).catch(() => undefined); // the address has it all the same
  }, []);
}

/** needsDrilldown reports whether a view has parts that are opened on demand, or differs from the first one. */
const needsDrilldown = (view: View, first: View): boolean =>
  view.all !== '' ||
  view.table ||
  view.tabs['events'] !== 'EVENT' ||
  view.tabs['sources'] === 'SOURCE' ||
  isDetail(view.tabs['pages']!) ||
  isDetail(view.tabs['audience']!) ||
  JSON.stringify(selectionOf(view)) !== JSON.stringify({ ...selectionOf(first), filters: [] });

/** useKeys sets the page's shortcuts, which have Plausible's letters. Each changes the view of its time. */
function useKeys(id: string, view: View, open: (dialog: Opens) => void, choose: Choose): void {
  const filtered = view.filters.length > 0;
  // With the first paint, as a key may follow it at once.
  useLayoutEffect(() => {
    const keys: PageKey[] = Object.entries(periods).map(([period, [, letter]]) => [
      letter,
      periodText(period),
      () => choose(() => ({ period, from: '', to: '' })),
    ]);

    keys.push(['C', t('period.custom'), () => open('dates')]);
    keys.push(['X', t('compare.toggle'), () => choose(({ compare }) => ({ compare: compare ? '' : 'previous' }))]);
    keys.push(['/', t('filter.title'), () => open('filter')]);
    if (filtered) keys.push(['Escape', t('filter.clear'), () => choose(() => ({ filters: [] }))]);
    if (id) keys.push(['R', t('live.title'), () => go(`/sites/${id}/live`)]);
    pageKeys.set(keys);
  }, [filtered]);
  useLayoutEffect(() => () => pageKeys.set([]), []);
}

/** Nothing explains a period without visits. */
function Nothing({ view }: { view: View }) {
  return (
    <p class="notice plain">
      {view.filters.length > 0 ? (
        <>
          {t('report.noneFiltered')} <a href={addressOf(view, { filters: [] })}>{t('filter.clear')}</a>
        </>
      ) : (
        <>
          {t('report.none')}{' '}
          {view.period !== 'today' && (
            <a href={addressOf(view, { period: 'today', from: '', to: '' })}>{t('report.today')}</a>
          )}
        </>
      )}
    </p>
  );
}

/** Totals are the figures of the whole period. Each is a link that shows it in the chart. */
function Totals({ view, report }: { view: View; report: ReportFields }) {
  return (
    // Browsers leave a link that is partly in view where it is.
    <ul
      class="totals"
      aria-label={t('report.totals')}
      onFocusIn={(e) => (e.target as Element).scrollIntoView({ inline: 'nearest', block: 'nearest' })}
    >
      {totals.map((metric) => {
        const now = report.totals[metric];
        const before = report.totals.comparison?.[metric] ?? null;
        const whole = typeof now === 'number' ? metricValue(metric, now) : undefined;
        return (
          <li key={metric}>
            <a href={addressOf(view, { metric })} aria-current={metric === view.metric || undefined}>
              <span class="name">{metricText(metric)}</span>
              <strong title={whole}>{metricValue(metric, now, true)}</strong>
              {report.totals.comparison && (
                <span class="before">
                  <Change metric={metric} now={now} before={before} />{' '}
                  <span class="hint">{t('compare.before', { before: metricValue(metric, before, true) })}</span>
                </span>
              )}
            </a>
          </li>
        );
      })}
    </ul>
  );
}

/** Revenue shows the exact revenue of each currency. */
function Revenue({ report }: { report: ReportFields }) {
  const { revenue, comparison } = report.totals;
  return (
    <section class="card panel whole-row" aria-label={t('panel.revenue')}>
      <h2>{t('panel.revenue')}</h2>
      {revenue.map((r) => (
        <Currency key={r.currency} r={r} before={comparison?.revenue.find((b) => b.currency === r.currency)} />
      ))}
    </section>
  );
}

function Currency({ r, before }: { r: RevenueFields; before: RevenueFields | undefined }) {
  const facts: [string, string][] = [
    [t('revenue.gross'), money(r.gross, r.currency)],
    [t('revenue.refunded'), money(r.refunded, r.currency)],
    [t('revenue.purchases'), exact(r.purchases)],
    [t('revenue.average'), r.averageOrder === null ? '–' : money(r.averageOrder, r.currency)],
  ];
  return (
    <dl class="facts">
      <div>
        <dt>{t('revenue.net', { currency: r.currency })}</dt>
        <dd>
          <strong>{money(r.net, r.currency)}</strong>{' '}
          {before && <Change now={Number(r.net)} before={Number(before.net)} />}
        </dd>
      </div>
      {facts.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
