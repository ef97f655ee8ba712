// The page of one site.
import { byCode, Empty, exact, Loaded, Missing, Quota, Section, SiteHeader, t, Time, useQuery } from '../core';
import { site, type RejectionFields } from '../operations';

/** Overview shows what an owner must know at once: rejected calls, the quota, and whether hits arrive. */
export function Overview({ id }: { id: string }) {
  const query = useQuery(site, { id });
  return (
    <Loaded query={query} title={t('site.overview')}>
      {(data) => {
        if (!data.site) return <Missing />;
        const { site } = data;
        return (
          <>
            <SiteHeader site={site}>
              <a href={'https://' + site.domain} target="_blank" rel="noreferrer">
                {site.domain}
              </a>
            </SiteHeader>
            <Rejected list={site.rejections} id={id} />
            {!site.lastHitAt && (
              <Empty>
                <h2>{t('overview.empty')}</h2>
                <p>{t('overview.emptyText', { domain: site.domain })}</p>
                <a class="button main" href={`/sites/${id}/install`}>
                  {t('install.title')}
                </a>
              </Empty>
            )}
            <Section title={t('quota.label')}>
              <Quota
                used={site.usage.pageviews}
                quota={site.usage.quota}
                share={site.usage.percent}
                label={t('quota.label')}
              />
              <p class="hint">
                {site.lastHitAt && (
                  <>
                    {t('site.lastHit')}: <Time at={site.lastHitAt} />.{' '}
                  </>
                )}
                {t('quota.resets')} <Time at={site.usage.resetsAt} />.
                {site.lastHitAt && (
                  <>
                    {' '}
                    <a href={`/sites/${id}/install`}>{t('install.title')}</a>
                  </>
                )}
              </p>
            </Section>
          </>
        );
      }}
    </Loaded>
  );
}

/** Rejected is the notice of rejected calls, with what to do about each. */
function Rejected({ list, id }: { list: RejectionFields[]; id: string }) {
  const codes = byCode(list);
  const n = codes.reduce((sum, { count }) => sum + count, 0);
  if (n === 0) return null;
  return (
    <section class="notice" aria-label={t('rejections.title')}>
      <p>
        <strong>{t('overview.rejected', { n })}</strong> <a href={`/sites/${id}/rejections`}>{t('overview.byDay')}</a>
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
