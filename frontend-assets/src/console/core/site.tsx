// Parts of all pages of a site.
import type { ComponentChildren } from 'preact';
import { useEffect } from 'preact/hooks';
import type { SiteFields } from '../operations';
import type { Query } from './data';
import { t } from './language';
import { setQuery } from './router';
import { Loaded } from './states';
import { chosenAccount, isGuest, viewer } from './store';
import { Title } from './ui';

/** useAccountOf chooses the account of a page's object. */
export function useAccountOf({ accountId }: { accountId: string }): void {
  useEffect(() => {
    const user = viewer.get();
    if (user && accountId !== (chosenAccount() ?? user.account.id)) setQuery({ account: accountId });
  }, [accountId]);
}

/** siteName returns the name of a site. Without one of its own that is the domain, in its own letters. */
export const siteName = (site: { name: string; domain: string; displayDomain: string }): string =>
  site.name === site.domain ? site.displayDomain : site.name;

/** last is the site of the last page and its reader. It heads the next page of the site until that page is loaded. */
let last: { site: SiteFields; userId: string | undefined } | undefined;

/** SiteHeader is the name of a site with its three tabs. The name is the heading of a page that has no title. */
function SiteHeader(props: { site: SiteFields; title: string | undefined; children: ComponentChildren }) {
  const { site } = props;
  const base = '/sites/' + site.id;
  last = { site, userId: viewer.get()?.id };
  useAccountOf(site);

  const here = location.pathname.slice(base.length);
  const guest = isGuest();
  const settings = guest ? '/export' : '/settings'; // the first page of the list
  const current = here === '' || here === '/live' ? here : settings;
  const tab = (path: string, text: string, mark?: ComponentChildren) => (
    <a href={base + path} aria-current={path !== current ? undefined : path === here ? 'page' : 'true'}>
      {text}
      {mark}
    </a>
  );
  return (
    <div class="site">
      <p class="crumb">
        <a href="/">{t('nav.sites')}</a> /
      </p>
      {props.title ? (
        <p class="name">
          <a href={base}>{siteName(site)}</a>
        </p>
      ) : (
        <Title text={siteName(site)} />
      )}
      {props.children}
      <nav class="tabs" aria-label={t('site.menu')}>
        {tab('', t('site.report'))}
        {tab('/live', t('live.title'))}
        {tab(settings, t('settings.title'), <Mark on={!guest && !!site.notice} />)}
      </nav>
    </div>
  );
}

/** Mark is a dot at the way to what needs attention. */
export function Mark({ on }: { on: boolean }) {
  const text = t('site.rejected');
  return on ? <i class="mark" role="img" aria-label={text} title={text} /> : null;
}

/** SitePage is a page of a site. While its data is loaded, the header of the site's last page stays. */
export function SitePage<D extends { site: SiteFields | null }>(props: {
  id: string;
  query: Query<D>;
  /** The heading of the page. Without a title the site's name is the heading. */
  title?: string;
  placeholder?: ComponentChildren;
  /** What follows the name of the site. */
  aside?(data: D): ComponentChildren;
  /** The list next to the page. */
  menu?(site: SiteFields | undefined): ComponentChildren;
  children(data: D): ComponentChildren;
}) {
  const { id, query, title } = props;
  const { data } = query;
  if (data && !data.site) return <>{props.children(data)}</>;

  const kept = last?.site.id === id && last.userId === viewer.get()?.id ? last.site : undefined;
  const site = data?.site ?? kept;
  const page = (
    <>
      {title && <Title text={title} />}
      <Loaded query={query} placeholder={props.placeholder}>
        {props.children}
      </Loaded>
    </>
  );
  return (
    <>
      {site ? (
        <SiteHeader site={site} title={title}>
          {data && props.aside?.(data)}
        </SiteHeader>
      ) : (
        <div class="site">{!title && <Title text={t('site.report')} />}</div>
      )}
      {props.menu ? (
        <div class="area">
          {props.menu(site)}
          <div>{page}</div>
        </div>
      ) : (
        page
      )}
    </>
  );
}
