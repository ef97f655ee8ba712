// Numbers and times in the user's language and time zone.
import { locale } from './language';

const formats = new Map<string, Intl.NumberFormat>();

/** format writes a number with a minus sign, where browsers write a hyphen. A format is made once, which takes longer than to write a hundred numbers. */
function format(n: number, options: Intl.NumberFormatOptions = {}): string {
  const key = locale() + JSON.stringify(options);
  let made = formats.get(key);
  if (!made) formats.set(key, (made = new Intl.NumberFormat(locale(), options)));
  return made.format(n).replace('-', '−');
}

/** exact writes a whole number with separators. */
export const exact = (n: number): string => format(n);

/** percent writes a number from 0 to 100 with one decimal, except 0 and 100. */
export const percent = (n: number): string =>
  format(n / 100, { style: 'percent', minimumFractionDigits: n % 100 ? 1 : 0, maximumFractionDigits: 1 });

/** date writes the day of a time. */
export const date = (time: string): string => new Date(time).toLocaleDateString(locale(), { dateStyle: 'medium' });

/** utcDay writes a UTC day given as YYYY-MM-DD. */
export const utcDay = (day: string): string =>
  new Date(day + 'T00:00:00Z').toLocaleDateString(locale(), { dateStyle: 'medium', timeZone: 'UTC' });

/** dateTime writes a time to the second. */
export const dateTime = (time: string): string =>
  new Date(time).toLocaleString(locale(), { dateStyle: 'medium', timeStyle: 'medium' });

/** clock writes the hour and the minute of a time. */
export const clock = (time: string): string => new Date(time).toLocaleTimeString(locale(), { timeStyle: 'short' });

const units: [Intl.RelativeTimeFormatUnit, number][] = [
  ['day', 86400],
  ['hour', 3600],
  ['minute', 60],
  ['second', 1],
];

/** ago writes the distance between a time and now: "3 hours ago", "in 2 days". */
export function ago(time: string, now = Date.now()): string {
  const seconds = Math.round((Date.parse(time) - now) / 1000);
  const [unit, size] = units.find(([, size]) => Math.abs(seconds) >= size) ?? units[3]!;
  return new Intl.RelativeTimeFormat(locale(), { numeric: 'auto' }).format(Math.round(seconds / size), unit);
}

/** compact writes a number briefly from ten thousand on: "315K". */
export const compact = (n: number): string =>
  n < 10_000 ? exact(n) : format(n, { notation: 'compact', maximumFractionDigits: 1 });

/** decimal writes a number with at most two decimals. */
export const decimal = (n: number): string => format(n, { maximumFractionDigits: 2 });

/** seconds writes a duration in minutes and seconds: "1m 42s". */
export function seconds(n: number): string {
  const unit = (value: number, unit: string): string =>
    format(value, { style: 'unit', unit, unitDisplay: 'narrow' });
  const whole = Math.round(n);
  if (whole < 60) return unit(whole, 'second');
  return `${unit(Math.floor(whole / 60), 'minute')} ${unit(whole % 60, 'second')}`;
}

/** signed writes a relative change in percent with its sign. */
export const signed = (ratio: number): string => {
  const digits = ratio && Math.abs(ratio) < 0.1 ? 1 : 0;
  return format(ratio, { style: 'percent', signDisplay: 'exceptZero', minimumFractionDigits: digits, maximumFractionDigits: digits });
};

/** decoded decodes letters of other alphabets in an address, but no signs that are invisible or change the direction. */
export const decoded = (address: string): string =>
  address.replace(/%[cd].%[89ab].|%e.(%[89ab].){2}|%f.(%[89ab].){3}/gi, (code) => {
    try {
      const text = decodeURIComponent(code);
      return /[\p{C}\p{Z}]/u.test(text) ? code : text;
    } catch {
      return code;
    }
  });
