/** The text of a function, also on pages that replace the function's own toString, or Function. */
const textOf = Object.toString;

/**
 * Whether the page's fetch is the browser's own. Some pages replace it by a function that adds
 * headers, which cause a preflight, repeats refused calls, waits before it sends, or returns another
 * value than a promise of a response. A Proxy and a bound function are replacements, too: they have
 * no name in their text.
 */
export const isFetchOwn = (): boolean =>
  typeof fetch === 'function' && /^function fetch\(\)\s*{\s*\[native code/.test(textOf.call(fetch));
