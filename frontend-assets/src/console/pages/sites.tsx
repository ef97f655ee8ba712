// The list of sites.
import { useEffect, useState } from 'preact/hooks';
import type { Failure } from '../core/api';
import { useQuery } from '../core/data';
import { Action } from '../core/dialog';
import { compact, exact } from '../core/format';
import { t } from '../core/language';
import { Change } from '../core/metrics';
import { setQuery, useURL } from '../core/router';
import { Mark, siteName } from '../core/site';
import { Empty, Failed, Loaded } from '../core/states';
import { chosenAccount, mayEdit, viewer } from '../core/store';
import { Quota, Time, Title } from '../core/ui';
import { whenNeeded } from '../report/report';
import { siteFigures, sites, type SitesData, type SitesFigures } from '../operations';

type Site = SitesData['sites'] extends infer C ? (C extends { edges: { node: infer N }[] } ? N : never) : never;

type Figures = SitesFigures['nodes'][number];

const orders = {
  name: (a: Site, b: Site) => a.name.localeCompare(b.name, undefined, { numeric: true }),
  newest: (a: Site, b: Site) => b.createdAt.localeCompare(a.createdAt),
  usage: (a: Site, b: Site) => b.usage.pageviews - a.usage.pageviews,
};

/** matches reports whether the name or the domain of a site contains a text. */
const matches = ({ name, domain, displayDomain }: Figures | Site, search: string): boolean =>
  [name, domain, displayDomain].some((text) => text.toLowerCase().includes(search.toLowerCase()));

/** useFigures returns the figures of all sites, in pages of 20, and why a page is missing. The list contains the first page. */
function useFigures(data: SitesData | undefined) {
  const [failure, fail] = useState<Failure>();
  const [later, setLater] = useState<SitesFigures[]>([]);
  const pages = data?.figures ? [data.figures, ...later] : [];
  const next = pages.at(-1)?.pageInfo;
  const after = next?.hasNextPage ? next.endCursor : null;

  useEffect(() => {
    if (!after || failure) return undefined;

    const stop = new AbortController();
    void siteFigures({ account: chosenAccount(), after }, stop.signal, () => undefined).then(
      ({ sites }) => sites && setLater((before) => [...before, sites]),
      (error) => stop.signal.aborted || fail(error), // the cards stay without figures
    );
    return () => stop.abort();
  }, [after, failure]);
  return { pages, failure, retry: () => fail(undefined) };
}

/** joined adds the sites of another page that the list lacks. */
function joined(data: SitesData, next: SitesData): SitesData {
  const known = new Set(data.sites!.edges.map((edge) => edge.node.id));
  const others = next.sites?.edges.filter((edge) => !known.has(edge.node.id)) ?? [];
  return { ...data, sites: { ...data.sites!, edges: [...data.sites!.edges, ...others] } };
}

/** useFound adds the sites that the server finds to the list while that is not loaded as a whole. */
function useFound(data: SitesData | undefined, search: string, show: (data: SitesData) => void): void {
  useEffect(() => {
    if (!search || !data?.sites?.pageInfo.hasNextPage) return undefined;

    const stop = new AbortController();
    const find = (): void =>
      void sites({ account: chosenAccount(), after: null, search }, stop.signal).then(
        (next) => show(joined(data, next)),
        () => undefined, // the loaded sites stay
      );
    const timer = setTimeout(find, 300);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [search]);
}

/** loadLines loads the module of the list, which few accounts need. */
const loadLines = whenNeeded(() => import('../lines'));

/** Sites shows one card for each site, or a line for each of many. Search and order stand in the URL. */
export function Sites() {
  const query = useQuery(sites, { account: chosenAccount(), after: null }, true);
  const read = useFigures(query.data);
  const figures = read.pages.flatMap(({ nodes }) => nodes);
  const { searchParams } = useURL();
  const search = searchParams.get('q') ?? '';
  useFound(query.data, search, query.set);
  const order = (searchParams.get('order') ?? 'name') as keyof typeof orders;
  const user = viewer.use();
  const isLong = (query.data?.sites?.totalCount ?? 0) > 12;
  const lines = useQuery(loadLines, { needed: isLong });

  return (
    <>
      <Title text={t('nav.sites')}>
        {mayEdit(user) && (
          <a class="button main" href="/sites/new">{t('sites.new')}</a>
        )}
      </Title>
      {query.part && <Failed failure={query.part} retry={query.reload} />}
      <Loaded query={query}>
        {(data) => {
          const all = data.sites?.edges.map((edge) => edge.node) ?? [];
          const found = all
            .filter((site) => matches(site, search))
            .sort(orders[order] ?? orders.name);
          return (
            <>
              {all.length === 0 && (
                <Empty>
                  <h2>{t('sites.empty')}</h2>
                  <p>{t('sites.emptyText')}</p>
                </Empty>
              )}
              {all.length > 1 && (
                <div class="filters" role="search">
                  <label>
                    <span class="sr">{t('sites.search')}</span>
                    <input
                      type="search"
                      placeholder={t('sites.search')}
                      value={search}
                      onInput={(e) => setQuery({ q: e.currentTarget.value })}
                    />
                  </label>
                  <label>
                    {t('sites.order')}{' '}
                    <select value={order} onChange={(e) => setQuery({ order: e.currentTarget.value })}>
                      <option value="name">{t('sites.order.name')}</option>
                      <option value="newest">{t('sites.order.newest')}</option>
                      <option value="usage">{t('sites.order.usage')}</option>
                    </select>
                  </label>
                </div>
              )}
              {all.length > 1 && <Sum {...read} figures={figures.filter((site) => matches(site, search))} />}
              {all.length > 0 && found.length === 0 && <p role="status">{t('sites.noMatch', { search })}</p>}
              {isLong ? (
                lines.data?.module && <lines.data.module.Lines sites={found} figures={figures} />
              ) : (
                <ul class="cards">
                  {found.map((site) => (
                    <Card key={site.id} site={site} figures={figures.find(({ id }) => id === site.id)} />
                  ))}
                </ul>
              )}
              {data.sites?.pageInfo.hasNextPage && <More data={data} show={query.set} />}
            </>
          );
        }}
      </Loaded>
    </>
  );
}

/** More appends the next hundred sites. */
function More({ data, show }: { data: SitesData; show(data: SitesData): void }) {
  const more = async (): Promise<void> => {
    const next = await sites({ account: chosenAccount(), after: data.sites!.pageInfo.endCursor });
    if (next.sites) show(joined({ ...data, sites: { ...next.sites, edges: data.sites!.edges } }, next));
  };
  return (
    <p>
      {t('sites.shown', { shown: data.sites!.edges.length, all: data.sites!.totalCount })}{' '}
      <Action run={more}>{t('list.more')}</Action>
    </p>
  );
}

const sum = (list: number[]): number => list.reduce((all, n) => all + n, 0);

/** Sum adds up the figures of the sites that a search finds, once all pages are read. A visitor of two sites counts twice. */
function Sum({ pages, failure, retry, figures }: ReturnType<typeof useFigures> & { figures: Figures[] }) {
  const last = pages.at(-1);
  const complete = !!last && !last.pageInfo.hasNextPage;
  const reports = figures.flatMap(({ report }) => report ?? []);
  const totals = {
    visitors: sum(reports.map(({ totals }) => totals.visitors)),
    comparison: { visitors: sum(reports.map(({ totals }) => totals.comparison?.visitors ?? 0)) },
  };
  const series = (reports[0]?.series ?? []).map((_, i) => ({
    metrics: { visitors: sum(reports.map(({ series }) => series[i]?.metrics.visitors ?? 0)) },
  }));
  return (
    <section class="card" aria-busy={!complete && !failure}>
      <h2>{t('sites.sum', { n: complete ? figures.length : (last?.totalCount ?? 0) })}</h2>
      {failure && <p>{t('sites.sumFailed')}</p>}
      {failure && <Failed failure={failure} retry={retry} />}
      <Week report={complete && reports.length === figures.length ? { totals, series } : null} read={complete} />
      <dl class="facts">
        <div>
          <dt>{t('live.visitors')}</dt>
          <dd>{complete ? exact(sum(figures.map(({ live }) => live.visitors))) : '–'}</dd>
        </div>
        <div>
          <dt>{t('site.thisMonth')}</dt>
          <dd>{complete ? t('site.hits', { n: sum(figures.map(({ usage }) => usage.pageviews)) }) : '–'}</dd>
        </div>
      </dl>
      <p class="hint">{t('sites.sumText')}</p>
    </section>
  );
}

/** Week shows the visitors of 7 days. */
function Week({ report, read }: { report: Figures['report']; read: boolean }) {
  return (
    <div class="week">
      <p>
        {report ? (
          <>
            <span class="hint">{t('sites.week')}</span>
            <strong title={exact(report.totals.visitors)}>{compact(report.totals.visitors)}</strong>{' '}
            <Change now={report.totals.visitors} before={report.totals.comparison?.visitors ?? null} />
          </>
        ) : (
          <span class="hint">{read && t('sites.noFigures')}</span>
        )}
      </p>
      {report && <Sparkline values={report.series.map((point) => point.metrics.visitors)} />}
    </div>
  );
}

function Card({ site, figures }: { site: Site; figures: Figures | undefined }) {
  const { usage } = site;
  const imported = sum(figures?.imports.map(({ visitors }) => visitors) ?? []);
  return (
    <li class="card">
      <h2>
        <a href={'/sites/' + site.id}>{siteName(site)}</a>
        <Mark on={!!site.notice} />
      </h2>
      {site.name !== site.domain && <p class="hint">{site.displayDomain}</p>}
      {site.lastHitAt ? (
        <Week report={figures?.report ?? null} read={!!figures} />
      ) : (
        imported > 0 && <p>{t('sites.imported', { n: imported })}</p>
      )}
      <dl class="facts">
        {site.lastHitAt && figures && (
          <div>
            <dt>{t('live.visitors')}</dt>
            <dd>
              <a href={`/sites/${site.id}/live`}>{exact(figures.live.visitors)}</a>
            </dd>
          </div>
        )}
        <div>
          <dt>{t('site.thisMonth')}</dt>
          <dd>{t('site.hits', { n: usage.pageviews })}</dd>
        </div>
        <div>
          <dt>{t('site.lastHit')}</dt>
          <dd>
            {site.lastHitAt ? (
              <Time at={site.lastHitAt} />
            ) : (
              mayEdit() && <a href={`/sites/${site.id}/install`}>{t('site.notInstalled')}</a>
            )}
          </dd>
        </div>
      </dl>
      {usage.quota && usage.percent! >= 80 && (
        <Quota used={usage.pageviews} quota={usage.quota} share={usage.percent!} label={t('quota.label')} />
      )}
    </li>
  );
}

/** Sparkline draws a few values without axes. Its figures are in the text next to it. */
function Sparkline({ values }: { values: number[] }) {
  const most = Math.max(...values, 1);
  const points = values.map((value, i) => `${(96 * i) / Math.max(values.length - 1, 1) + 2},${30 - (28 * value) / most}`);
  return (
    <svg class="spark" viewBox="0 0 100 32" width="100" height="32" aria-hidden="true"><polyline points={points.join(' ')} /></svg>
  );
}
