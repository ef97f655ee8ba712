// The page of one site.
import { usePolling, useQuery } from '../core/data';
import { exact } from '../core/format';
import { t } from '../core/language';
import { byCode, SiteHeader } from '../core/site';
import { Empty, Loaded, Missing } from '../core/states';
import { Quota, Time } from '../core/ui';
import { selectionOf } from '../core/view';
import { figures, type FiguresData, type RejectionFields } from '../operations';
import { Report, useTabs, useView } from '../report/report';

/** Overview shows a site's figures, and facts that an owner must know at once: rejected calls and the quota. */
export function Overview({ id }: { id: string }) {
  const view = useView();
  const tabs = useTabs(view);
  const query = useQuery(figures, { id, ...selectionOf(view), ...tabs }, true);
  usePolling(() => query.reload(), 60_000);

  return (
    <Loaded query={query} title={t('site.overview')}>
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
            <Rejected list={site.rejections} id={id} />
            <Usage site={site} />
            {site.lastHitAt ? (
              <Report
                id={id}
                view={view}
                report={site.report}
                failure={query.part}
                retry={query.reload}
                busy={query.busy}
                tabs={tabs}
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

/** Usage is the quota's meter, from 80 percent on. */
function Usage({ site: { usage } }: { site: NonNullable<FiguresData['site']> }) {
  if (usage.percent < 80) return null;
  return (
    <section class="notice" aria-label={t('quota.label')}>
      <p>{t('quota.label')}</p>
      <Quota used={usage.pageviews} quota={usage.quota} share={usage.percent} label={t('quota.label')} />
      <p class="hint">
        {t('quota.resets')} <Time at={usage.resetsAt} />.
      </p>
    </section>
  );
}

/** Rejected is the notice of rejected calls, and of others that need attention, with what to do about each. */
function Rejected({ list, id }: { list: RejectionFields[]; id: string }) {
  const codes = byCode(list);
  if (codes.length === 0) return null;
  const n = codes.reduce((sum, { count, recorded }) => (recorded ? sum : sum + count), 0);
  return (
    <section class="notice" aria-label={t('rejections.title')}>
      <p>
        <strong>{n > 0 ? t('overview.rejected', { n }) : t('site.rejected')}</strong> <a href={`/sites/${id}/rejections`}>{t('overview.byDay')}</a>
      </p>
      <ul>
        {codes.slice(0, 4).map(({ code, count, advice }) => (
          <li key={code}>
            <code>{code}</code> × {exact(count)}: {advice}
          </li>
        ))}
      </ul>
    </section>
  );
}
