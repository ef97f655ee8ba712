// The pages of a site's settings, with the list of them.
import type { ComponentChildren } from 'preact';
import type { Query } from '../core/data';
import { t, type TextKey } from '../core/language';
import { SitePage } from '../core/site';
import { isGuest } from '../core/store';
import type { SiteFields } from '../operations';
import { PageMenu } from './menu';

/** SettingsPage is a page of a site's settings. Guests who come by its address read that it is not theirs. */
export function SettingsPage<D extends { site: SiteFields | null }>(props: {
  id: string;
  query: Query<D>;
  title: string;
  children(data: D): ComponentChildren;
}) {
  const { id, query, title } = props;
  return (
    <SitePage id={id} query={query} title={title} menu={(site) => <Menu id={id} title={title} notice={!isGuest() && !!site?.notice} />}>
      {(data) => (data.site && !reaches() ? <p class="notice">{t('failure.FORBIDDEN')}</p> : props.children(data))}
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

/** reaches reports whether the reader has the page of the address. */
const reaches = (): boolean => !isGuest() || guestPages.files.includes(location.pathname.split('/')[3]!);

/** names are the texts of pages that have another name than their title. */
const names: Record<string, TextKey> = { settings: 'menu.general', alerts: 'alerts.andMails' };

/** Menu lists the pages of a site's settings. */
function Menu({ id, title, notice }: { id: string; title: string; notice: boolean }) {
  const address = (path: string): string => `/sites/${id}/${path}`;
  const groups = Object.entries(isGuest() ? guestPages : pages).map(([group, paths]): [string, [string, string][]] => [
    t(`menu.${group}` as TextKey),
    paths.map((path) => [address(path), t(names[path] ?? (`${path}.title` as TextKey))]),
  ]);
  return <PageMenu label={t('settings.title')} title={title} groups={groups} marked={notice ? address('rejections') : undefined} />;
}
