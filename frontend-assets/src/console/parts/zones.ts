// Time zones to choose from.
import { locale } from '../core/language';

/** renamed maps the retired names that browsers still list to their present names. */
const renamed: Record<string, string> = {
  'Africa/Asmera': 'Africa/Asmara',
  'America/Buenos_Aires': 'America/Argentina/Buenos_Aires',
  'America/Catamarca': 'America/Argentina/Catamarca',
  'America/Coral_Harbour': 'America/Atikokan',
  'America/Cordoba': 'America/Argentina/Cordoba',
  'America/Godthab': 'America/Nuuk',
  'America/Indianapolis': 'America/Indiana/Indianapolis',
  'America/Jujuy': 'America/Argentina/Jujuy',
  'America/Louisville': 'America/Kentucky/Louisville',
  'America/Mendoza': 'America/Argentina/Mendoza',
  'Asia/Calcutta': 'Asia/Kolkata',
  'Asia/Katmandu': 'Asia/Kathmandu',
  'Asia/Rangoon': 'Asia/Yangon',
  'Asia/Saigon': 'Asia/Ho_Chi_Minh',
  'Atlantic/Faeroe': 'Atlantic/Faroe',
  'Europe/Kiev': 'Europe/Kyiv',
  'Pacific/Enderbury': 'Pacific/Kanton',
  'Pacific/Ponape': 'Pacific/Pohnpei',
  'Pacific/Truk': 'Pacific/Chuuk',
};

/** offset returns the present distance of a zone from UTC, such as "+05:30". */
function offset(zone: string): string {
  const format = new Intl.DateTimeFormat('en', { timeZone: zone, timeZoneName: 'longOffset' });
  const name = format.formatToParts().find(({ type }) => type === 'timeZoneName')?.value ?? '';
  return name.slice(3) || '+00:00';
}

/** currentZone returns the browser's zone by its present name. */
export function currentZone(): string {
  const { timeZone } = Intl.DateTimeFormat().resolvedOptions();
  return renamed[timeZone] ?? timeZone;
}

/** zones returns the time zones that the browser knows, each with its offset, with UTC and the current one. */
export function zones(current: string): [string, string][] {
  const names = Intl.supportedValuesOf('timeZone').map((zone) => renamed[zone] ?? zone);
  const sorted = [...new Set(['UTC', current, ...names])].sort((a, b) => a.localeCompare(b, locale()));
  return sorted.map((zone) => [zone, `${zone.replace(/_/g, ' ')} (UTC${offset(zone)})`]);
}
