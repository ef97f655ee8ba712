// Paths of the console's pages.

/** match compares a path with a pattern such as "/sites/:id" and returns its parameters. */
export function match(pattern: string, path: string): Record<string, string> | undefined {
  const wanted = pattern.split('/');
  const given = path.split('/');
  if (wanted.length !== given.length) return undefined;

  const found: Record<string, string> = {};
  for (const [i, part] of wanted.entries()) {
    if (part.startsWith(':') && given[i]) found[part.slice(1)] = given[i]!;
    else if (part !== given[i]) return undefined;
  }
  return found;
}

/**
 * safeNext returns the path of an address if it leads to a page of this console, else "/". A path that begins with
 * two slashes would name another host, which the history refuses.
 */
export function safeNext(next: string | null, origin = location.origin): string {
  try {
    const url = new URL(next ?? '/', origin);
    return url.origin === origin && !url.pathname.startsWith('//') ? url.pathname + url.search : '/';
  } catch {
    return '/';
  }
}
