// The texts of dimensions, of their values, and of filters.
import { decoded } from './format';
import { locale, t, translated, type TextKey } from './language';
import type { Filter } from './view';

/** dimensionText returns the name of a dimension. */
export const dimensionText = (dimension: string): string => t(('dimension.' + dimension) as TextKey);

/** oneText returns the name of one value of a dimension that a filter can have. */
export const oneText = (dimension: string): string => t(('one.' + dimension) as TextKey);

/** isTime reports whether the values of a dimension are hours or days of the week, which have an order. */
export const isTime = (dimension: string): boolean => dimension === 'HOUR_OF_DAY' || dimension === 'DAY_OF_WEEK';

/** isDetail reports whether the values of a dimension are known only if the site keeps that detail of its visits. */
export const isDetail = (dimension: string): boolean => /^(COUNTRY|BROWSER|SYSTEM|DEVICE|HOSTNAME)$/.test(dimension);

/** isRest reports whether a value stands for the small groups of visitors, which have no rows of their own. */
const isRest = (dimension: string, value: string): boolean =>
  value === '(other)' && /^(COUNTRY|BROWSER|SYSTEM|DEVICE|LANGUAGE|SCREEN_WIDTH)$/.test(dimension);

/** isPlain reports whether no filter takes a row. */
export const isPlain = (dimension: string, row: { value: string; onlyImported: boolean }): boolean =>
  row.onlyImported || isRest(dimension, row.value);

/** isHost reports whether the values of a dimension are or contain hosts, which can have other letters than ASCII. */
export const isHost = (dimension: string): boolean => isSource(dimension) || /^(REFERRER|HOSTNAME)$/.test(dimension);

/** isSource reports whether the values of a dimension are sources, which have icons. */
export const isSource = (dimension: string): boolean => /^SOURCE(_NAME)?$/.test(dimension);

/** naming writes hosts in their own letters, and events by their readable names, once a module has set it. */
export const naming = { of: (value: string): string => value, event: (value: string): string => value };

/** noneText returns the word for a value that is missing, or that is not known. */
export const noneText = (dimension: string): string => t(isDetail(dimension) ? 'value.unknown' : 'value.none');

/** coded are the dimensions with values that are translated, with the groups of their texts. */
export const coded = { CHANNEL: 'channel', DEVICE: 'device', SOURCE_GROUP: 'group' } as const;

/** valueText writes a value of a dimension for people. parts/typed.ts has the inverse. */
export function valueText(dimension: string, value: string): string {
  if (value === '') return noneText(dimension);
  if (isRest(dimension, value)) return t('value.other');
  if (isHost(dimension)) return naming.of(decoded(value));
  if (/PAGE/.test(dimension)) return decoded(value);
  if (dimension === 'EVENT') return naming.event(value);
  if (dimension in coded) return translated(coded[dimension as keyof typeof coded], value.replace(/\W/g, '_'), value);
  if (dimension === 'LANGUAGE') return codeName('language', value);
  if (dimension === 'COUNTRY') return codeName('region', value);
  if (dimension === 'SCREEN_WIDTH') return value + ' px';
  if (dimension === 'HOUR_OF_DAY') return value + ':00';
  if (dimension === 'DAY_OF_WEEK') {
    // 1 January 2024 was a Monday.
    const day = new Date(Date.UTC(2024, 0, Number(value)));
    return day.toLocaleDateString(locale(), { weekday: 'long', timeZone: 'UTC' });
  }
  return value;
}

/** codeName returns the name of a language or country, or its code if the browser has no name. */
export function codeName(type: 'language' | 'region', code: string): string {
  try {
    return new Intl.DisplayNames([locale()], { type }).of(code) ?? code;
  } catch {
    return code;
  }
}

/** filterLabel writes a filter as a sentence: "Page is /a or /b". */
export function filterLabel(f: Filter): { what: string; operator: string; values: string } {
  return {
    what: f.dimension === 'PROPERTY' ? [f.event && naming.event(f.event), f.property].filter(Boolean).join(': ') : oneText(f.dimension),
    operator: t(('operator.' + f.operator) as TextKey),
    values: [...new Set(f.values.map((value) => valueText(f.dimension, value)))].join(' ' + t('filter.or') + ' '),
  };
}
