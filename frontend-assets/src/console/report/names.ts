// The names of periods and comparisons.
import { utcDay } from '../core/format';
import { locale, t, type TextKey } from '../core/language';
import type { View } from '../core/view';

/** periodText returns the name of a preset. */
export const periodText = (period: string): string => t(('period.' + period) as TextKey);

/** days writes the first and the last day of a period. */
export function days({ from, to }: { from: string; to: string }): string {
  const format = new Intl.DateTimeFormat(locale(), { dateStyle: 'medium', timeZone: 'UTC' });
  return format.formatRange(Date.parse(from), Date.parse(to));
}

/** periodName writes the period of a view. Chosen days stand in their order. */
export const periodName = ({ period, from, to }: View): string =>
  from ? days(from < to ? { from, to } : { from: to, to: from }) : periodText(period);

/** compareName writes the comparison of a view. Nothing precedes all time. */
export function compareName({ period, compare, dates }: View): string {
  if (period === 'all') return t('compare.nothing');
  if (/^\d/.test(compare)) return t('compare.since', { day: utcDay(compare) });
  return t(('compare.' + (compare ? compare + (dates ? 'Dates' : '') : 'none')) as TextKey);
}
