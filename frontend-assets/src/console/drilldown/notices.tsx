// The line above the figures of a site: what its owner must know.
import { useEffect, useState } from 'preact/hooks';
import { date, percent } from '../core/format';
import { t } from '../core/language';
import { hideSiteNotices, type FiguresData, type NoticeCounts } from '../operations';
import { byCode } from '../parts/codes';

type Site = NonNullable<FiguresData['site']>;

/**
 * Notices are links to the rejected calls and to the usage, in one line. A reader hides the line until a count grows.
 * The server keeps the hidden counts for the user, as it keeps the period of the report: this way a line that was
 * hidden on one computer stays hidden on another, and the device stores nothing. The dot at Settings stays.
 */
export function Notices({ site, counts }: { site: Site; counts: NoticeCounts }) {
  const { id, usage } = site;
  const [hidden, setHidden] = useState(site.hiddenNotices);
  const hide = (next: NoticeCounts): void => {
    setHidden(next);
    hideSiteNotices({ input: { siteId: id, ...next } }).catch(() => undefined); // the line returns with the next visit
  };

  // A count of the last days falls again. Its next growth begins there.
  const rejections = Math.min(hidden.rejections, counts.rejections);
  const step = Math.min(hidden.usage, counts.usage);
  useEffect(() => {
    if (rejections < hidden.rejections || step < hidden.usage) hide({ rejections, usage: step });
  }, [rejections, step]);

  const rejected = counts.rejections > rejections;
  const used = counts.usage > step;
  if (!rejected && !used) return null;
  return (
    <p class={used ? 'attention long' : 'attention'}>
      {rejected && <a href={`/sites/${id}/rejections`}>{rejectedText(site)}</a>}
      {used && (
        <a href={`/sites/${id}/usage`}>
          {counts.usage < 100
            ? t('attention.quota', { share: percent(usage.percent!) })
            : t('attention.full', { date: date(usage.resetsAt) })}
        </a>
      )}
      <button
        type="button"
        class="link"
        aria-label={t('attention.hide')}
        title={t('attention.hide')}
        onClick={() => {
          hide(counts);
          document.querySelector('h1')!.focus();
        }}
      >
        ×
      </button>
    </p>
  );
}

/** rejectedText counts the rejected calls. Without any, recorded ones need attention. */
function rejectedText({ rejections }: Site): string {
  const n = byCode(rejections).reduce((sum, { count, recorded }) => (recorded ? sum : sum + count), 0);
  return n > 0 ? t('attention.rejected', { n }) : t('site.rejected');
}
