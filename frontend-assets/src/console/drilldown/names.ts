// Names in place of codes: of well-known sources, of hosts in other alphabets, and of the events that the script sends.
import { t, type TextKey } from '../core/language';

const names =
  'Google Bing DuckDuckGo Yahoo Yandex Baidu Ecosia Facebook Instagram LinkedIn Reddit YouTube Pinterest TikTok GitHub ' +
  'ChatGPT Perplexity WhatsApp Telegram Bluesky Mastodon Threads Claude Gemini Copilot Wikipedia Medium Qwant';
const byKey = new Map(names.split(' ').map((name) => [name.toLowerCase(), name]));
byKey.set('t', 'X');
byKey.set('x', 'X');
byKey.set('twitter', 'X');
byKey.set('news.ycombinator', 'Hacker News');

/** nameOf returns the name of a well-known source, and whether the source is a host. It returns undefined for others. */
export function nameOf(source: string): { name: string; isHost: boolean } | undefined {
  const plain = byKey.get(source);
  if (plain && source !== 't') return { name: plain, isHost: false };

  const [, key] = /^(?:(?:www|l|lm|m|out)\.)?([a-z.]+?)\.(?:co|com|ai|org|[a-z]{2}|com?\.[a-z]{2})$/.exec(source) ?? [];
  const name = key && byKey.get(key);
  return name && (key !== 't' || source === 't.co') ? { name, isHost: true } : undefined;
}

/**
 * sourceName writes the name of a source, such as "Google (www.google.com)". Sources with the same name remain
 * apart, so a host stands behind it.
 */
export function sourceName(source: string): string {
  const found = nameOf(source);
  return !found ? hostText(source) : found.isHost ? `${found.name} (${source})` : found.name;
}

/** shownName writes a value that contains a host. */
export const shownName = (dimension: string, value: string): string =>
  dimension === 'SOURCE' ? sourceName(value) : hostText(value);

/** hostText writes the labels of a host that are encoded as ASCII in their own letters. */
export const hostText = (host: string): string =>
  host.replace(/\bxn--([a-z0-9-]+)/gi, (label, code: string) => {
    const text = punycode(code.toLowerCase());
    // Invisible letters, and Latin letters among similar ones of another alphabet, imitate other hosts.
    const isMixed = /\p{Script=Latin}/u.test(text) && /[\p{Script=Cyrillic}\p{Script=Greek}]/u.test(text);
    return text && !isMixed && /^[\p{L}\p{M}\p{Nd}-]+$/u.test(text) ? text : label;
  });

/** punycode decodes a label (RFC 3492). It returns '' for an invalid label. */
function punycode(code: string): string {
  const split = code.lastIndexOf('-');
  const letters = [...code.slice(0, Math.max(split, 0))];
  let n = 128;
  let bias = 72;
  let i = 0;
  for (let at = split + 1; at < code.length; ) {
    const before = i;
    for (let weight = 1, k = 36; ; k += 36) {
      const sign = code.charCodeAt(at++);
      const digit = sign >= 97 && sign <= 122 ? sign - 97 : sign >= 48 && sign <= 57 ? sign - 22 : -1;
      if (digit < 0) return '';

      i += digit * weight;
      const threshold = Math.min(Math.max(k - bias, 1), 26);
      if (digit < threshold) break;
      weight *= 36 - threshold;
    }

    const count = letters.length + 1;
    let delta = Math.floor((i - before) / (before ? 2 : 700));
    delta += Math.floor(delta / count);
    for (bias = 0; delta > 455; bias += 36) delta = Math.floor(delta / 35);
    bias += Math.floor((36 * delta) / (delta + 38));

    n += Math.floor(i / count);
    if (n > 0x10ffff) return '';
    letters.splice((i %= count), 0, String.fromCodePoint(n));
    i++;
  }
  return letters.join('');
}

/** standard matches the names of the script's own events, which are translated. */
const standard = /^(outbound_click|file_download|scroll|site_search|view_item|add_to_cart|begin_checkout|purchase|refund)$/;

/** eventName returns the readable name of an event that the script sends, or ''. Owners' events keep their names. */
export const eventName = (event: string): string => (standard.test(event) ? t(`event.${event}` as TextKey) : '');
