// The page of one site.
import { usePolling, useQuery } from '../core/data';
import { t } from '../core/language';
import { SiteHeader } from '../core/site';
import { Empty, Loaded, Missing, Skeleton } from '../core/states';
import { Time } from '../core/ui';
import { figures, type FiguresData } from '../operations';
import { loadDrilldown, Report, useTabs, useView, variablesOf } from '../report/report';

type Site = NonNullable<FiguresData['site']>;

/** Overview shows a site's figures, and facts that an owner must know at once: rejected calls and the quota. */
export function Overview({ id }: { id: string }) {
  const view = useView();
  const tabs = useTabs(view);
  const query = useQuery(figures, { id, ...variablesOf(view, tabs) }, true);
  usePolling(() => query.reload(), 60_000);

  return (
    <Loaded query={query} title={t('site.overview')} placeholder={<Skeleton />}>
      {(data) => {
        const { site } = data;
        if (!site) return <Missing />;
        return (
          <>
            <SiteHeader site={site}>
              <a href={`/sites/${id}/live`} class="now">
                {t('live.now', { n: site.live.visitors })}
              </a>
            </SiteHeader>
            <Notices site={site} />
            {site.lastHitAt ? (
              <Report
                id={id}
                asked={view}
                opens={site.reportView}
                report={site.report}
                failure={query.part}
                retry={query.reload}
                busy={query.busy}
                tabs={tabs}
                details={site.visitDetails}
                notes={site.annotations?.edges.map((edge) => edge.node) ?? []}
              />
            ) : (
              <Empty>
                <h2>{t('overview.empty')}</h2>
                <p>{t('overview.emptyText', { domain: site.domain })}</p>
                <a class="button main" href={`/sites/${id}/install`}>
                  {t('install.title')}
                </a>
              </Empty>
            )}
            {site.lastHitAt && (
              <p class="aside">
                <a href={'https://' + site.domain} target="_blank" rel="noreferrer">
                  {site.domain}
                </a>
                <span>
                  {t('site.lastHit')}: <Time at={site.lastHitAt} />
                </span>
                <a href={`/sites/${id}/install`}>{t('install.title')}</a>
              </p>
            )}
          </>
        );
      }}
    </Loaded>
  );
}

/** Notices are facts that an owner must know: rejected calls and the quota. Their module is loaded if there are any. */
function Notices({ site }: { site: Site }) {
  const needed = site.usage.percent >= 80 || site.rejections.some((r) => !r.ignored);
  const Loaded = useQuery(loadDrilldown, { needed }).data?.module?.Notices;
  return needed ? Loaded ? <Loaded site={site} /> : <p class="notice brief" /> : null;
}
