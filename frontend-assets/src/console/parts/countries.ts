// Countries and languages, as people write them.
import { locale } from '../core/language';

const letters = [...'ABCDEFGHIJKLMNOPQRSTUVWXYZ'];

/** codeNamed returns the code of the country, or of the language in small letters, with a name in a language. */
function codeNamed(text: string, language: string, type: 'region' | 'language' = 'region'): string | undefined {
  const names = new Intl.DisplayNames([language], { type });
  const fits = (code: string): boolean =>
    names.of(code)!.localeCompare(text, language, { sensitivity: 'base' }) === 0 &&
    (type === 'language' || new Intl.Locale('und-' + code).region === code); // not DD, which has the name of today's country
  return letters.flatMap((first) => letters.map((second) => first + second)).find(fits);
}

/** countryCode returns the code of a country that is written as its code or name, or else the text itself. */
export function countryCode(text: string): string {
  if (/^[a-z]{2}$/i.test(text)) return text.toUpperCase();
  return codeNamed(text, locale()) ?? codeNamed(text, 'en') ?? text;
}

/** languageCode is countryCode for languages. */
export const languageCode = (text: string): string =>
  (codeNamed(text, locale(), 'language') ?? codeNamed(text, 'en', 'language') ?? text).toLowerCase();
