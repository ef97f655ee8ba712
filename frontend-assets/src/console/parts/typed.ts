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

/**
 * typed returns the stored values that the page shows as a text: a path with the escapes of browsers, with the small
 * letters of escapes that some systems write into their links, and as other programs may send it. Wildcards stay.
 */
export function typed(dimension: string, text: string): string[] {
  if (isHost(dimension)) {
    const [host = '', ...path] = text.split('/');
    return spellings([sentHost(host), ...path].join('/'));
  }
  return /PAGE/.test(dimension) ? spellings(text) : [text];
}

function spellings(text: string): string[] {
  const sent = sentPath(text);
  return sent === text ? [text] : [sent, sent.replace(/%../g, (code) => code.toLowerCase()), text];
}
