// The pages of a site's settings, with the list of them.
import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import type { Query } from '../core/data';
import { t } from '../core/language';
import { Mark, SitePage } from '../core/site';
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
    <SitePage id={id} query={query} title={title} menu={(site) => <Menu id={id} title={title} notice={!!site?.notice} />}>
      {props.children}
    </SitePage>
  );
}

/** Menu lists the pages of a site's settings in groups. Narrow windows show it on demand, below the current page's name. */
function Menu({ id, title, notice }: { id: string; title: string; notice: boolean }) {
  const [open, setOpen] = useState(false);
  const groups: [name: string, pages: [path: string, text: string, marked?: boolean][]][] = [
    [
      t('menu.site'),
      [
        ['settings', t('menu.general')],
        ['install', t('install.title')],
      ],
    ],
    [
      t('menu.data'),
      [
        ['events', t('events.title')],
        ['rejections', t('rejections.title'), notice],
        ['usage', t('usage.title')],
      ],
    ],
    [
      t('menu.reports'),
      [
        ['saved', t('saved.title')],
        ['sharing', t('sharing.title')],
      ],
    ],
    [
      t('menu.files'),
      [
        ['export', t('export.title')],
        ['import', t('import.title')],
        ['webhooks', t('webhooks.title')],
        ['alerts', t('alerts.andMails')],
      ],
    ],
  ];
  return (
    <nav class={open ? 'pages open' : 'pages'} aria-label={t('settings.title')}>
      <button type="button" aria-expanded={open} aria-label={t('menu.open', { page: title })} onClick={() => setOpen(!open)}>
        {title}
        <Mark on={notice} />
      </button>
      <ul>
        {groups.map(([name, pages]) => (
          <li key={name}>
            <p id={'menu-' + pages[0]![0]}>{name}</p>
            <ul aria-labelledby={'menu-' + pages[0]![0]}>
              {pages.map(([path, text, marked]) => (
                <li key={path}>
                  <a href={`/sites/${id}/${path}`} aria-current={location.pathname.endsWith('/' + path) ? 'page' : undefined}>
                    {text}
                    <Mark on={!!marked} />
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
