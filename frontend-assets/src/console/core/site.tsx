// Parts of all pages of a site.
import type { ComponentChildren } from 'preact';
import { useEffect } from 'preact/hooks';
import type { RejectionFields, SiteFields } from '../operations';
import { t, translated } from './language';
import { setQuery } from './router';
import { chosenAccount, viewer } from './store';
import { Tabs, Title } from './ui';

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

/** SiteHeader is the heading and the menu of a site's pages. */
export function SiteHeader({
  site,
  title,
  children,
}: {
  site: SiteFields;
  title?: string;
  children?: ComponentChildren;
}) {
  const base = '/sites/' + site.id;
  useAccountOf(site);
  return (
    <>
      <p class="crumb">
        <a href="/">{t('nav.sites')}</a>
        {title && (
          <>
            {' / '}
            <a href={base}>{siteName(site)}</a>
          </>
        )}
      </p>
      <Title text={title ?? siteName(site)}>{children}</Title>
      <Tabs
        label={t('site.menu')}
        items={[
          [base, t('site.overview')],
          [base + '/live', t('live.title')],
          [base + '/events', t('events.title')],
          [base + '/rejections', t('rejections.title')],
          [base + '/webhooks', t('webhooks.title')],
          [base + '/export', t('export.title')],
          [base + '/import', t('import.title')],
          [base + '/sharing', t('sharing.title')],
          [base + '/saved', t('saved.title')],
          [base + '/usage', t('usage.title')],
          [base + '/settings', t('settings.title')],
        ]}
      />
    </>
  );
}

type CodeSum = { code: string; count: number; advice: string; recorded: boolean };

/** byCode adds up the calls of each code, the most frequent first: those that need attention, or those ignored on purpose. */
export function byCode(list: RejectionFields[], ignored = false): CodeSum[] {
  const sums = new Map<string, CodeSum>();
  for (const r of list) {
    if (r.ignored !== ignored) continue;
    const sum = sums.get(r.code) ?? {
      code: r.code,
      count: 0,
      advice: translated('advice', r.code, r.advice),
      recorded: r.recorded,
    };
    sum.count += r.count;
    sums.set(r.code, sum);
  }
  return [...sums.values()].sort((a, b) => b.count - a.count);
}
