// The figures of reports: their texts, formats and changes.
import { compact, decimal, exact, percent, seconds, signed } from './format';
import { t, type TextKey } from './language';
import type { Metric } from './view';

/** totals lists the figures of the page's head, in order. */
export const totals: readonly Metric[] = [
  'visitors',
  'visits',
  'pageviews',
  'viewsPerVisit',
  'bounceRate',
  'engagementTime',
  'conversionRate',
];

/** metricText returns the name of a figure. */
export const metricText = (metric: string): string => t(('metric.' + metric) as TextKey);

/** metricValue writes a figure; brief shortens large numbers. A rate of nothing is a dash. */
export function metricValue(metric: string, value: number | null, brief = false): string {
  if (value === null) return '–';
  if (/Rate$|share|Depth/.test(metric)) return percent(value);
  if (/Time|timeOn/.test(metric)) return seconds(value);
  if (metric === 'viewsPerVisit') return decimal(value);
  return brief ? compact(value) : exact(value);
}

/** Change writes the difference of a figure to an earlier figure. Of bounce rates, less is better. Without a metric it is visitors of a row. */
export function Change({ metric, now, before }: { metric?: string; now: number | null; before: number | null }) {
  if (now === null || before === null || (now === 0 && before === 0)) return null;
  if (before === 0) return metric ? null : <span class="change">{t('change.new')}</span>;

  const ratio = (now - before) / Math.abs(before);
  const better = metric === 'bounceRate' ? ratio < 0 : ratio > 0;
  const text = signed(ratio);
  return <span class={'change ' + (/[1-9]/.test(text) ? (better ? 'up' : 'down') : '')}>{text}</span>;
}
