// The names of well-known sources.
const names =
  'Google Bing DuckDuckGo Yahoo Yandex Baidu Ecosia Facebook Instagram LinkedIn Reddit YouTube Pinterest TikTok GitHub ChatGPT Perplexity';
const byKey = new Map(names.split(' ').map((name) => [name.toLowerCase(), name]));
byKey.set('t', 'X');
byKey.set('news.ycombinator', 'Hacker News');

/**
 * sourceName writes the name of a source, such as "Google (www.google.com)". Sources with the same name remain
 * apart, so a host stands behind it.
 */
export function sourceName(source: string): string {
  const plain = byKey.get(source);
  if (plain && source !== 't') return plain;

  const [, key] = /^(?:(?:www|l|lm|m|out)\.)?([a-z.]+?)\.(?:co|com|ai|[a-z]{2}|com?\.[a-z]{2})$/.exec(source) ?? [];
  const name = key && byKey.get(key);
  return name && (key !== 't' || source === 't.co') ? `${name} (${source})` : source;
}
