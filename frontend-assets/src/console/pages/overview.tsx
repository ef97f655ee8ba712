// The page of one site.
import { usePolling, useQuery } from '../core/data';
import { t } from '../core/language';
import { SitePage } from '../core/site';
import { Empty, Missing, Skeleton } from '../core/states';
import { mayEdit } from '../core/store';
import { Time } from '../core/ui';
import { figures, type FiguresData, type NoticeCounts } from '../operations';
import { loadDrilldown, Report, useTabs, useView, variablesOf } from '../report/report';

type Site = NonNullable<FiguresData['site']>;

/** Overview shows a site's figures, and facts that an owner must know at once: rejected calls and the quota. */
export function Overview({ id }: { id: string }) {
  const view = useView();
  const tabs = useTabs(view);
  const query = useQuery(figures, { id, ...variablesOf(view, tabs) }, true);
  usePolling(() => query.reload(), 60_000);

  return (
    <SitePage
      id={id}
      query={query}
      placeholder={<Skeleton />}
      aside={({ site }) => (
        <a href={`/sites/${id}/live`} class="now">{t('live.now', { n: site!.live.visitors })}</a>
      )}
    >
      {(data) => {
        const { site } = data;
        if (!site) return <Missing />;
        return (
          <>
            <Notices site={site} />
            {!site.lastHitAt && site.imports[0] && (
              <p class="notice plain">
                {t('overview.importsOnly')} <a href={`/sites/${id}/install`}>{t('site.notInstalled')}</a>
              </p>
            )}
            {site.lastHitAt || site.imports[0] ? (
              <Report
                id={id}
                asked={view}
                opens={site.reportView}
                report={site.report}
                failure={query.part}
                retry={query.reload}
                busy={query.busy}
                tabs={tabs}
                notes={site.annotations?.nodes ?? []}
              />
            ) : (
              <Empty>
                <h2>{t('overview.empty')}</h2>
                <p>{t('overview.emptyText', { domain: site.domain })}</p>
                <a class="button main" href={`/sites/${id}/install`}>{t('install.title')}</a>
              </Empty>
            )}
            {site.lastHitAt && (
              <p class="aside">
                <a href={'https://' + site.domain} target="_blank" rel="noreferrer">{site.domain}</a>
                <span>
                  {t('site.lastHit')}: <Time at={site.lastHitAt} />
                </span>
                {mayEdit() && <a href={`/sites/${id}/install`}>{t('install.title')}</a>}
              </p>
            )}
          </>
        );
      }}
    </SitePage>
  );
}

/** noticeCounts returns the counts of a site's notices: calls that need attention, and the step of the quota, in percent. */
const noticeCounts = ({ rejections, usage: { percent } }: Site): NoticeCounts => ({
  rejections: rejections.reduce((sum, { ignored, count }) => (ignored ? sum : sum + count), 0),
  usage: [100, 80].find((step) => percent! >= step) ?? 0,
});

/**
 * Notices is a line of what an owner must know, until the reader hides it. Its module is loaded if a count is another
 * than the hidden one. The line has its height before that, so that the figures do not move.
 */
function Notices({ site }: { site: Site }) {
  const counts = noticeCounts(site);
  const { rejections, usage } = site.hiddenNotices;
  const needed = counts.rejections !== rejections || counts.usage !== usage;
  const Loaded = useQuery(loadDrilldown, { needed }).data?.module?.Notices;
  if (Loaded) return <Loaded site={site} counts={counts} />;
  return counts.usage > usage ? <p class="attention long" /> : counts.rejections > rejections ? <p class="attention" /> : null;
}
