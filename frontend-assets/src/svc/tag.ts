/**
 * The script's own element, which carries the settings. It is read while the script first runs,
 * because currentScript is empty afterwards. In a module it is always empty, and where a loader
 * evaluates the script's text it is the loader, so the element is then found by its attribute. On a
 * page with an image named "currentScript" it is that image.
 */
const element = [document.currentScript, ...document.querySelectorAll('script')].find(
  (each) => each instanceof HTMLScriptElement && /^[\da-f]{32}$/.test(each.dataset.site!),
) as HTMLScriptElement | undefined;

const settings = element ? element.dataset : {};

/** The site key, or undefined when data-site is missing or malformed. */
export const siteKey = settings.site;

/** Whether automatic events and page views on route changes are sent. */
export const auto = settings.auto !== 'off';

/** Whether site search terms are sent: data-search is present, with any value. */
export const search = 'search' in settings;

/** Whether messages and responses are logged: the page was opened with ?svc_debug. */
export const debug = /[?&]svc_debug\b/.test(location.search);

/**
 * The collection endpoint, which is in the folder that the script was loaded from; empty if the
 * script has no address on the web, such as an inline script or a blob. It is resolved while the
 * script first runs, because a relative src would follow the page's later addresses.
 */
export const endpoint = element && /^http/.test(element.src) ? new URL('collect.php', element.src).href : '';
