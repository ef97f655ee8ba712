// Lines above the figures of a site: what its owner must know at once.
import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { exact, percent } from '../core/format';
import { t } from '../core/language';
import { byCode } from '../core/site';
import type { FiguresData, RejectionFields } from '../operations';

type Site = NonNullable<FiguresData['site']>;

/** away has what the user has put away: the count of each notice, until the page is reloaded. */
const away = new Map<string, number>();

/** Notice is a line that can be put away until its count grows. */
function Notice(props: { name: string; count: number; href: string; children: ComponentChildren }) {
  const { name, count } = props;
  const [hidden, hide] = useState(away.get(name) ?? 0);
  if (count <= hidden) return null;
  return (
    <p class="notice brief">
      <a href={props.href}>{props.children}</a>
      <button
        type="button"
        class="small"
        aria-label={t('notice.hide')}
        onClick={() => {
          away.set(name, count);
          hide(count);
          document.querySelector('h1')!.focus();
        }}
      >
        ×
      </button>
    </p>
  );
}

/** Usage is the quota's line, from 80 percent on. */
function Usage({ site: { id, usage } }: { site: Site }) {
  const { pageviews, quota, percent: used } = usage;
  const count = used < 80 ? 0 : Math.floor(used);
  return (
    <Notice name={'usage' + id} count={count} href={`/sites/${id}/usage`}>
      {t('quota.label')}: {t('quota.of', { used: exact(pageviews), quota: exact(quota), share: percent(used) })}
    </Notice>
  );
}

/** Notices are the lines of a site above its figures. */
export function Notices({ site }: { site: Site }) {
  return (
    <>
      <Rejected list={site.rejections} id={site.id} />
      <Usage site={site} />
    </>
  );
}

/** Rejected is the line of rejected calls, and of others that need attention. */
function Rejected({ list, id }: { list: RejectionFields[]; id: string }) {
  const codes = byCode(list);
  const n = codes.reduce((sum, { count, recorded }) => (recorded ? sum : sum + count), 0);
  const all = codes.reduce((sum, { count }) => sum + count, 0);
  return (
    <Notice name={'calls' + id} count={all} href={`/sites/${id}/rejections`}>
      {n > 0 ? t('overview.rejected', { n }) : t('site.rejected')}
    </Notice>
  );
}
