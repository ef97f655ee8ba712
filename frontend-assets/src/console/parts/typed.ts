// Values as they are stored, from what people type: the inverse of valueText in core/values.ts.
import { isHost } from '../core/values';

/** sentPath writes a path, or a pattern of paths, as browsers send it: with the escapes of URL.pathname. */
export const sentPath = (path: string): string => path.replace(/(?:[^!-~]|["<>`{}])+/g, encodeURIComponent);

/** sentHost writes the labels of a host as ASCII. */
const sentHost = (host: string): string =>
  host
    .split('.')
    .map((label) => {
      if (/^[ -~]*$/.test(label) || !host.includes('.')) return label;
      try {
        return new URL('http://' + label).hostname;
      } catch {
        return label;
      }
    })
    .join('.');

const mostValues = 50; // of a filter

/**
 * typed returns the stored values that the page shows as texts, each once: a path with the escapes of browsers, with
 * the small letters of escapes that some systems write into their links, and as other programs may send it. If these
 * were too many for a filter, each text has its first value only. Wildcards stay.
 */
export function typed(dimension: string, ...texts: string[]): string[] {
  const all = texts.map((text) => spellings(dimension, text));
  const values = [...new Set(all.flat())];
  return values.length > mostValues ? [...new Set(all.map(([first]) => first!))] : values;
}

/** spellings returns the values that a text may stand for, as browsers send it first. */
function spellings(dimension: string, text: string): string[] {
  if (isHost(dimension)) {
    const [host = '', ...path] = text.split('/');
    // A source with a dot may be no host, for example utm_source=frühling.2026.
    return [...paths([sentHost(host), ...path].join('/')), text];
  }
  if (dimension === 'SCREEN_WIDTH') return [text.replace(/\s*px$/i, '')];
  return /PAGE/.test(dimension) ? paths(text) : [text];
}

function paths(text: string): string[] {
  const sent = sentPath(text);
  return sent === text ? [text] : [sent, sent.replace(/%../g, (code) => code.toLowerCase()), text];
}
