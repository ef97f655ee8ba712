// Names in place of codes: of hosts in other alphabets, and of the events that the script sends.
import { t, type TextKey } from '../core/language';

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

/** eventName returns the readable name of an event of the script, or of an import that has encoded it; '' for others. */
export const eventName = (event: string): string =>
  standard.test(event) ? t(`event.${event}` as TextKey) : event.startsWith('xn--') ? punycode(event.slice(4)) : '';
