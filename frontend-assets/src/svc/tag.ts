/**
 * The script's own element, which carries the settings. It is read while the script first runs,
 * because currentScript is empty afterwards. In a module it is always empty, so the element is then
 * found by its attribute. On a page with an image named "currentScript" it is that image.
 */
const current = document.currentScript;
const element =
  current instanceof HTMLScriptElement ? current : document.querySelector<HTMLScriptElement>('script[data-site]');

const settings = element ? element.dataset : {};

/** The site key, or undefined when data-site is missing or malformed. */
export const siteKey = /^[\da-f]{32}$/.test(settings.site!) ? settings.site : undefined;

/** Whether automatic events and page views on route changes are sent. */
export const auto = settings.auto !== 'off';

/** Whether site search terms are sent: data-search is present, with any value. */
export const search = 'search' in settings;

/** Whether messages and responses are logged: the page was opened with ?svc_debug. */
export const debug = /[?&]svc_debug\b/.test(location.search);

/** Returns the collection endpoint, which is on the origin that the script was loaded from. */
export const endpoint = () => new URL('/collect.php', element!.src);
