// Names of months.
import { locale } from '../core/language';

/** monthName writes a month given as YYYY-MM. */
export const monthName = (period: string): string =>
  new Date(period + '-01T00:00:00Z').toLocaleDateString(locale(), { month: 'long', year: 'numeric', timeZone: 'UTC' });
