// A site's figures: controls, totals, chart and panels. The URL holds their choices.
import { useCallback, useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { Failure } from '../core/api';
import { useQuery } from '../core/data';
import { t } from '../core/language';
import { Change, metricText, metricValue, totals } from '../core/metrics';
import { loadModule } from '../core/modules';
import { go, useURL } from '../core/router';
import { Failed, Loading, Skeleton } from '../core/states';
import { type PageKey, pageKeys } from '../core/store';
import { addressOf, choiceOf, intervalOf, opened, periods, selectionOf, type View, viewOf } from '../core/view';
import { setReportView, type ReportDimension, type ReportFields, type ViewFields } from '../operations';
import { Chart } from './chart';
import { Chips, Controls } from './controls';
import type { Choose, Opens } from './menubutton';
import { periodText } from './names';
import { DimensionRows, isLeftOut, Panel, PanelTabs, rowsOf } from './panel';
import type { Note } from './series';

/** useView returns the view of the current address. */
export const useView = (): View => viewOf(useURL().searchParams);

/** useTabs returns the dimensions that the first view asks for: the tabs that were open when the visits changed. */
export function useTabs(view: View): Record<'sources' | 'pages' | 'audience', ReportDimension> {
  const key = addressOf({ ...view, tabs: {}, table: false, metric: 'visitors', all: '', property: '', event: '', funnel: '', journey: '' });
  const held = useRef({ key: '', tabs: view.tabs });
  if (held.current.key !== key) held.current = { key, tabs: view.tabs };
  const { sources, pages, audience } = held.current.tabs;
  return { sources, pages, audience } as Record<'sources' | 'pages' | 'audience', ReportDimension>;
}

/** variablesOf returns the variables of the operations with a whole report. */
export const variablesOf = (view: View, tabs: ReturnType<typeof useTabs>) => ({
  ...selectionOf(view),
  interval: intervalOf(view),
  ...tabs,
  audienceRows: rowsOf(tabs.audience),
});

/** Report shows the figures of a view. Without an id it belongs to a shared link, without segments and funnels. */
export function Report(props: {
  id: string;
  /** The view of the address. */
  asked: View;
  opens: ViewFields;
  report: ReportFields | null;
  failure: Failure | undefined;
  retry(): Promise<void>;
  busy: boolean;
  tabs: Record<string, string>;
  notes: Note[];
}) {
  const { id, report, failure } = props;
  const tabs: Record<string, string> = { ...props.tabs, events: 'EVENT' };
  const shown = useRef(tabs); // the dimensions of the figures, also while others are counted
  if (!props.busy) shown.current = tabs;
  let view = opened(props.asked, props.opens);
  if (isLeftOut(id, view.tabs['events']!)) view = { ...view, tabs: { ...view.tabs, events: 'EVENT' } };
  const choose = useChoice(id, props.opens);
  const [opens, open] = useState<Opens>('');
  const first = useRef(view);
  const needed = useRef(false);
  needed.current ||= opens !== '' || !!report;
  const module = useQuery(loadDrilldown, { needed: needed.current });
  const drilldown = module.data?.module;

  const [touched, touch] = useState(false);
  const more = useQuery(loadTimeline, { needed: touched || view.smooth || (opens !== '' && !isDrilldown(opens)) });
  const timeline = more.data?.module;
  const need = (): void => touch(true);

  // The interval of the figures that are shown, also while figures of another interval are counted.
  const interval = useRef(view.interval);
  if (!props.busy && !failure) interval.current = view.interval;
  useEffect(() => {
    // An address may ask for more points than a chart has.
    if (failure?.code === 'INVALID_ARGUMENT' && view.interval) go(addressOf(view, { interval: '' }), true);
  }, [failure]);
  useKeys(id, view, opens, open, choose);

  const close = (): void => open('');
  const panels = { id, view, report, tabs, shown: shown.current, drilldown };
  return (
    <>
      <Controls {...{ id, view, opens, open, choose, need, timeline }} />
      <Chips view={view} />
      <p class="sr" role="status">
        {drilldown && <drilldown.Changes first={first.current} view={view} report={report} failed={!!failure} busy={props.busy} />}
      </p>
      {module.error && <Failed failure={module.error} retry={module.reload} />}
      {more.error && <Failed failure={more.error} retry={more.reload} />}
      {failure && <Failed failure={failure} retry={props.retry} />}
      {failure && report && drilldown && <p class="hint">{drilldown.asOf(report)}</p>}
      {!report ? (
        !failure && <Skeleton />
      ) : view.journey ? (
        drilldown ? <drilldown.Following id={id} view={view} /> : <Loading />
      ) : (
        <div class="figures" aria-busy={props.busy}>
          <Totals view={view} report={report} />
          <Chart
            {...{ id, report, view, need, timeline, opens, open }}
            interval={interval.current}
            notes={props.notes}
            reload={props.retry}
            AsTable={drilldown?.AsTable}
          >
            {drilldown ? <drilldown.Below id={id} report={report} view={view} /> : report.comparedFrom && <p class="why" />}
          </Chart>
          <div class="panels">
            <div>
              <Panel {...panels} name="sources" />
              <Panel {...panels} name="audience" />
            </div>
            <div>
              <Panel {...panels} name="pages" />
              <Panel {...panels} name="events">
                {view.tabs['events'] === 'EVENT' ? undefined : drilldown ? (
                  <drilldown.EventsTab {...{ id, view }} rows={(of) => <DimensionRows {...{ id, view, drilldown, ...of }} dimension="PROPERTY" />} />
                ) : <Loading />}
              </Panel>
            </div>
            {drilldown && report.totals.revenue[0] && <drilldown.Revenue id={id} view={view} report={report} tabs={<PanelTabs id={id} name="revenue" view={view} />} />}
          </div>
        </div>
      )}
      {drilldown && view.all && (
        <drilldown.WholeTable key={view.all + view.property} id={id} view={view} onClose={() => go(addressOf(view, { all: '', order: '', search: '', property: '', event: '' }))} />
      )}
      {timeline && opens === 'dates' && <timeline.Dates view={view} report={report} onClose={close} />}
      {timeline && opens === 'compare' && <timeline.ComparedDates view={view} report={report} onClose={close} />}
      {drilldown && opens === 'filter' && <drilldown.FilterDialog id={id} view={view} onClose={close} />}
      {drilldown && opens === 'download' && report && (
        <drilldown.Download id={id} view={view} report={report} busy={props.busy} onClose={close} />
      )}
      {drilldown && opens === 'segments' && <drilldown.Segments id={id} view={view} onClose={close} />}
    </>
  );
}

/** whenNeeded returns a function that loads a module once it is needed. */
export const whenNeeded =
  <M,>(load: () => Promise<M>) =>
  async ({ needed }: { needed: boolean }): Promise<{ module?: M }> =>
    needed ? { module: await loadModule(load) } : {};

/** loadDrilldown loads the module of what the first paint does not need, once there are figures to which it adds. */
export const loadDrilldown = whenNeeded(() => import('../drilldown'));

/** loadTimeline loads the module of what is opened at the chart and at the choice of the period, once it is needed. */
const loadTimeline = whenNeeded(() => import('../timeline'));

/** isDrilldown reports whether a dialog is part of the module drilldown. */
const isDrilldown = (opens: Opens): boolean => /filter|segments|download/.test(opens);

/** useChoice returns the function that shows another period or comparison, and keeps it in the account. */
function useChoice(id: string, opens: ViewFields): Choose {
  const known = useRef(opens);
  known.current = opens;
  return useCallback((changes) => {
    const now = opened(viewOf(new URLSearchParams(location.search)), known.current);
    const changed = changes(now);
    const next = { ...now, ...changed };

    // Without its period the entry of the history would show what is chosen now.
    go(addressOf(now), true);
    go(addressOf(now, changed));

    const chosen = choiceOf(next);
    if (id && chosen && JSON.stringify(chosen) !== JSON.stringify(choiceOf(now)))
      setReportView({ input: { siteId: id, ...chosen } }).catch(() => undefined); // the address has it all the same
  }, []);
}

/** useKeys sets the page's shortcuts, which have Plausible's letters. Each changes the view of its time. */
function useKeys(id: string, view: View, opens: Opens, open: (dialog: Opens) => void, choose: Choose): void {
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
    if (filtered) keys.push(['Escape', t('filter.clear'), () => (opens ? open('') : choose(() => ({ filters: [] })))]);
    if (id) keys.push(['R', t('live.title'), () => go(`/sites/${id}/live`)]);
    pageKeys.set(keys);
  }, [filtered, opens]);
  useLayoutEffect(() => () => pageKeys.set([]), []);
}

/** Totals are the figures of the whole period. Each is a link that shows it in the chart. */
function Totals({ view, report }: { view: View; report: ReportFields }) {
  return (
    <ul class="totals" aria-label={t('report.totals')}>
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
