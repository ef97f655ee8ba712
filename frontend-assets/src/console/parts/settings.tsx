// The pages of a site's settings, with the list of them.
import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import type { Query } from '../core/data';
import { t, type TextKey } from '../core/language';
import { Mark, SitePage } from '../core/site';
import { isGuest } from '../core/store';
import type { SiteFields } from '../operations';

/** SettingsPage is a page of a site's settings. */
export function SettingsPage<D extends { site: SiteFields | null }>(props: {
  id: string;
  query: Query<D>;
  title: string;
  children(data: D): ComponentChildren;
}) {
  const { id, query, title } = props;
  return (
    <SitePage id={id} query={query} title={title} menu={(site) => <Menu id={id} title={title} notice={!isGuest() && !!site?.notice} />}>
      {props.children}
    </SitePage>
  );
}

/** pages are the pages of the settings, in groups. Guests read reports: they export them, and have mails of their own. */
const pages = {
  site: ['settings', 'measurement', 'exclusions', 'install', 'advanced'],
  data: ['events', 'rejections', 'usage'],
  reports: ['saved', 'sharing'],
  files: ['export', 'import', 'webhooks', 'alerts'],
};
const guestPages = { files: ['export', 'alerts'] };

/** names are the texts of pages that have another name than their title. */
const names: Record<string, TextKey> = { settings: 'menu.general', alerts: 'alerts.andMails' };

/** Menu lists the pages of a site's settings in groups. Narrow windows show it on demand, below the current page's name. */
function Menu({ id, title, notice }: { id: string; title: string; notice: boolean }) {
  const [open, setOpen] = useState(false);
  return (
    <nav class={open ? 'pages open' : 'pages'} aria-label={t('settings.title')}>
      <button type="button" aria-expanded={open} aria-label={t('menu.open', { page: title })} onClick={() => setOpen(!open)}>
        {title}
        <Mark on={notice} />
      </button>
      <ul>
        {Object.entries(isGuest() ? guestPages : pages).map(([group, paths]) => (
          <li key={group}>
            <p id={'menu-' + group}>{t(`menu.${group}` as TextKey)}</p>
            <ul aria-labelledby={'menu-' + group}>
              {paths.map((path) => (
                <li key={path}>
                  <a href={`/sites/${id}/${path}`} aria-current={location.pathname.endsWith('/' + path) ? 'page' : undefined}>
                    {t(names[path] ?? (`${path}.title` as TextKey))}
                    <Mark on={notice && path === 'rejections'} />
                  </a>
                </li>
              ))}
            </ul>
          </li>
        ))}
      </ul>
    </nav>
  );
}
