// The list of sites.
import { Action, Empty, Loaded, mayEdit, Quota, setQuery, t, Time, Title, useQuery, useURL, viewer } from '../core';
import { sites, type SitesData } from '../operations';

type Site = SitesData['sites'] extends infer C ? (C extends { edges: { node: infer N }[] } ? N : never) : never;

const orders = {
  name: (a: Site, b: Site) => a.name.localeCompare(b.name),
  newest: (a: Site, b: Site) => b.createdAt.localeCompare(a.createdAt),
  usage: (a: Site, b: Site) => b.usage.pageviews - a.usage.pageviews,
};

/** Sites shows one card for each site. Search and order stand in the URL. */
export function Sites() {
  const query = useQuery(sites, { after: null });
  const { searchParams } = useURL();
  const search = searchParams.get('q') ?? '';
  const order = (searchParams.get('order') ?? 'name') as keyof typeof orders;
  const user = viewer.use();

  return (
    <>
      <Title text={t('nav.sites')}>
        {mayEdit(user) && (
          <a class="button main" href="/sites/new">
            {t('sites.new')}
          </a>
        )}
      </Title>
      <Loaded query={query}>
        {(data) => {
          const all = data.sites?.edges.map((edge) => edge.node) ?? [];
          const found = all
            .filter((site) => (site.name + ' ' + site.domain).toLowerCase().includes(search.toLowerCase()))
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
              {all.length > 0 && found.length === 0 && <p role="status">{t('sites.noMatch', { search })}</p>}
              <ul class="cards">
                {found.map((site) => (
                  <Card key={site.id} site={site} />
                ))}
              </ul>
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
    const next = await sites({ after: data.sites!.pageInfo.endCursor });
    if (next.sites) show({ ...next, sites: { ...next.sites, edges: [...data.sites!.edges, ...next.sites.edges] } });
  };
  return (
    <p>
      {t('sites.shown', { shown: data.sites!.edges.length, all: data.sites!.totalCount })}{' '}
      <Action run={more}>{t('list.more')}</Action>
    </p>
  );
}

function Card({ site }: { site: Site }) {
  const { usage } = site;
  return (
    <li class="card">
      <h2>
        <a href={'/sites/' + site.id}>{site.name}</a>
      </h2>
      {site.name !== site.domain && <p class="hint">{site.domain}</p>}
      <dl class="facts">
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
              <a href={`/sites/${site.id}/install`}>{t('site.notInstalled')}</a>
            )}
          </dd>
        </div>
      </dl>
      {usage.percent >= 80 && (
        <Quota used={usage.pageviews} quota={usage.quota} share={usage.percent} label={t('quota.label')} />
      )}
      {site.notice && (
        <p class="badge">
          <a href={`/sites/${site.id}/rejections`}>{t('site.rejected')}</a>
        </p>
      )}
    </li>
  );
}
