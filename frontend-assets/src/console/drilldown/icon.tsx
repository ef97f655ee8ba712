// Icons of sources: a sign of our own for the most frequent ones, and a coloured initial for all others.
import { hostText } from './names';

/** signs are drawings of 16 by 16 by the names of db/model/sources/names.txt, each with its colour: [colour, path, whether it is filled]. */
const signs: Record<string, [colour: string, path: string, filled?: boolean]> = {
  Google: ['#3b6fd4', 'M11.7 5.2A4.4 4.4 0 1 0 12.4 8H8.4'],
  Bing: ['#0f6d78', 'M5.5 3.5v8.3l3 1.2 3.5-2.2-4-1.8'],
  DuckDuckGo: ['#c2491d', 'M5 12.5V7a3 3 0 0 1 6 0v1.2h2l-2 1.6v2.7'],
  Yahoo: ['#5f01d1', 'M4.5 4.5 8 9.2l3.5-4.7M8 9v3.5'],
  Facebook: ['#2b5fc4', 'M10.6 4.2H9.4c-1 0-1.5.6-1.5 1.6v6.7M6 8.2h4.2'],
  Instagram: ['#b0307f', 'M5.8 3.8h4.4a2 2 0 0 1 2 2v4.4a2 2 0 0 1-2 2H5.8a2 2 0 0 1-2-2V5.8a2 2 0 0 1 2-2ZM10 8a2 2 0 1 1-4 0 2 2 0 0 1 4 0Z'],
  X: ['#20242c', 'M4.5 4.5l7 7m0-7l-7 7'],
  LinkedIn: ['#1c629c', 'M5 7.2v4.6M5 4.6v.2M8 11.8V7.2m0 2.1c.3-2.9 3.6-2.8 3.6 0v2.5'],
  Reddit: ['#c8401a', 'M3.8 9.2c0-3.6 8.4-3.6 8.4 0s-8.4 3.6-8.4 0ZM8 6.4l.7-2.6 2 .6M6.4 8.6v.3m3.2-.3v.3'],
  YouTube: ['#c02222', 'M6.2 4.6v6.8L12 8Z', true],
  Pinterest: ['#b3162a', 'M7.4 7.4 6.2 12.6M5.6 9c-2.3-4.6 5-6.6 5.2-2.2.1 3-2.6 4-3.5 2.4'],
  TikTok: ['#20242c', 'M9 4v6a1.9 1.9 0 1 1-2-1.9M9 4c.2 1.6 1.2 2.5 2.8 2.6'],
  GitHub: ['#333a45', 'M5.5 6v4.8M10.6 7c0 2-5.1 1.2-5.1 3.4M5.5 4.4v.1m5.1.8v.1m-5.1 6.8v.1'],
  'Hacker News': ['#b8490a', 'M5 4.5l3 4.2 3-4.2M8 8.5v3.5'],
  ChatGPT: ['#0e6b55', 'M8 3.6l3.8 2.2v4.4L8 12.4l-3.8-2.2V5.8ZM8 8l3.6-2M8 8v4M8 8 4.4 6'],
};

/** Icon is the icon of a source or of the name of sources. It is hidden from screen readers, because the name follows. */
export function Icon({ source }: { source: string }) {
  const sign = Object.hasOwn(signs, source) && signs[source];
  if (sign) {
    const [colour, path, filled] = sign;
    return (
      <svg class="icon" width="16" height="16" viewBox="0 0 16 16" aria-hidden="true">
        <rect width="16" height="16" rx="4" fill={colour} />
        <path d={path} class={filled ? 'filled' : undefined} />
      </svg>
    );
  }

  const text = hostText(source).replace(/^www\./, '');
  return <i class={text ? 'icon' : 'icon plain'} aria-hidden="true" data-initial={initial(text)} style={{ '--hue': String(hue(text)) }} />;
}

/** initial returns the first letter of a name, or a dot. */
const initial = (name: string): string => /[\p{L}\p{N}]/u.exec(name)?.[0].toUpperCase() ?? '·';

/** hue returns a colour that a name always has. */
function hue(name: string): number {
  let sum = 0;
  for (const sign of name) sum = (sum * 31 + sign.codePointAt(0)!) % 360;
  return sum;
}
