/**
 * The script's own element, which carries the settings. It has to be read while the script first
 * runs, for currentScript is empty afterwards (and always in a module, hence the second way). It is
 * no script where the page has an image with the name "currentScript".
 */
const current = document.currentScript;
const element = current instanceof HTMLScriptElement ? current : document.querySelector<HTMLScriptElement>('script[data-site]');

const settings = element ? element.dataset : {};

/** The site key, or undefined when data-site is missing or malformed. */
export const siteKey = /^[\da-f]{32}$/.test(settings.site!) ? settings.site : undefined;

/** Whether automatic events, and page views on route changes, are wanted. */
export const auto = settings.auto !== 'off';

/** Whether site search terms are to be sent: data-search is there, with any value. */
export const search = 'search' in settings;

/**
 * Whether to say on the console what is sent and what the server answers: the page was opened with
 * ?svc_debug.
 */
export const debug = /[?&]svc_debug\b/.test(location.search);

/** The collection endpoint, on the origin that the script itself came from. */
export const endpoint = () => new URL('/collect.php', element!.src);
