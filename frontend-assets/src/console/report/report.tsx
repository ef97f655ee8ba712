// A site's figures: controls, totals, chart and panels. The URL holds their choices.
import { useEffect, useRef, useState } from 'preact/hooks';
import { Failure } from '../core/api';
import { exact, money } from '../core/format';
import { loadPageTexts, t } from '../core/language';
import { Change, metricText, metricValue, totals } from '../core/metrics';
import { go, useURL } from '../core/router';
import { Failed, Loading } from '../core/states';
import { type PageKey, pageKeys } from '../core/store';
import { addressOf, periods, type View, viewOf } from '../core/view';
import type { ReportDimension, ReportFields, RevenueFields } from '../operations';
import { Chart, type Note } from './chart';
import { Chips, Controls, periodText, type Opens } from './controls';
import { Panel } from './panel';

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
  view: View;
  report: ReportFields | null;
  failure: Failure | undefined;
  retry(): void;
  busy: boolean;
  tabs: Record<string, string>;
  notes: Note[];
}) {
  const { id, view, report, tabs } = props;
  const [opens, open] = useState<Opens>('');
  const needed = opens !== '' || view.all !== '' || view.tabs['events'] !== 'EVENT';
  const drilldown = useDrilldown(needed);
  useKeys(id, view, open);

  const close = (): void => open('');
  return (
    <>
      <Controls id={id} view={view} open={open} />
      <Chips view={view} />
      {props.failure ? (
        <Failed failure={props.failure} retry={props.retry} />
      ) : report ? (
        <div class="figures" aria-busy={props.busy}>
          {report.totals.visits === 0 && <Nothing view={view} />}
          <Totals view={view} report={report} />
          <Chart
            report={report}
            metric={view.metric}
            notes={props.notes}
            table={view.table}
            toggle={addressOf(view, { table: !view.table })}
          />
          <div class="panels">
            <Panel id={id} name="sources" view={view} loaded={report.sources} loadedTab={tabs['sources']!} />
            <Panel id={id} name="pages" view={view} loaded={report.pages} loadedTab={tabs['pages']!} />
            <Panel id={id} name="audience" view={view} loaded={report.audience} loadedTab={tabs['audience']!} />
            <Panel id={id} name="events" view={view} loaded={report.events} loadedTab="EVENT">
              {view.tabs['events'] === 'EVENT' ? undefined : !drilldown ? (
                <Loading />
              ) : view.tabs['events'] === 'PROPERTY' ? (
                <drilldown.Properties id={id} view={view} />
              ) : (
                <drilldown.Funnels id={id} view={view} />
              )}
            </Panel>
            {report.totals.revenue.length > 0 && <Revenue report={report} />}
          </div>
        </div>
      ) : (
        <Loading />
      )}
      {drilldown && view.all && (
        <drilldown.WholeTable key={view.all + view.property} id={id} view={view} onClose={() => go(addressOf(view, { all: '', order: '', search: '', property: '', event: '' }))} />
      )}
      {drilldown && opens === 'dates' && <drilldown.Dates view={view} onClose={close} />}
      {drilldown && opens === 'filter' && <drilldown.FilterDialog id={id} view={view} onClose={close} />}
      {drilldown && opens === 'segments' && <drilldown.Segments id={id} view={view} onClose={close} />}
    </>
  );
}

/** useDrilldown returns the module of what is opened on demand, as soon as it is needed and loaded. */
function useDrilldown(needed: boolean): Drilldown | undefined {
  const [drilldown, set] = useState<{ module: Drilldown }>();
  useEffect(() => {
    if (needed && !drilldown) void Promise.all([import('../drilldown'), loadPageTexts()]).then(([module]) => set({ module }));
  }, [needed]);
  return drilldown?.module;
}

/** useKeys sets the page's shortcuts, which have Plausible's letters. Each changes the view of its time. */
function useKeys(id: string, view: View, open: (dialog: Opens) => void): void {
  const filtered = view.filters.length > 0;
  useEffect(() => {
    const now = (): View => viewOf(new URLSearchParams(location.search));
    const change = (changes: Partial<View>): void => go(addressOf(now(), changes));
    const keys: PageKey[] = Object.entries(periods).map(([period, [, letter]]) => [
      letter,
      periodText(period),
      () => change({ period, from: '', to: '' }),
    ]);

    keys.push(['C', t('period.custom'), () => open('dates')]);
    keys.push(['X', t('compare.toggle'), () => change({ compare: now().compare ? '' : 'previous' })]);
    keys.push(['/', t('filter.title'), () => open('filter')]);
    if (filtered) keys.push(['Escape', t('filter.clear'), () => change({ filters: [] })]);
    if (id) keys.push(['R', t('live.title'), () => go(`/sites/${id}/live`)]);
    pageKeys.set(keys);
  }, [filtered]);
  useEffect(() => () => pageKeys.set([]), []);
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
