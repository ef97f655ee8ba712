// The script in the place of Matomo's: /matomo.js and /piwik.js.
import { stripQuery } from '../svc/address';
import { guard } from '../svc/guard';
import { claim, identifyBy, pathOf, report, start } from './core';
import type { Report } from './core';
import { auto, callAt, findTag, readTag } from './tag';

/** A command with its arguments, or a function that is called with the tracker. */
type Command = [command: string | ((this: Tracker, ...values: unknown[]) => void), ...values: unknown[]];

/** Has a function for every command. All of them return an empty text. */
type Tracker = Record<string, (...values: unknown[]) => string>;

interface Matomo {
  initialized: true;
  getTracker(url?: unknown, site?: unknown): Tracker;
  getAsyncTracker(url?: unknown, site?: unknown): Tracker;
}

declare global {
  interface Window {
    _paq?: { push(...commands: Command[]): unknown };
    Matomo?: Matomo;
    Piwik?: Matomo;
    matomoAsyncInit?: () => void;
    piwikAsyncInit?: () => void;
  }
}

type Properties = Record<string, unknown>;

/** Matches the name of the script, also with a version. */
const named = /\/((matomo|piwik)(\.min)?\.js|js\/)(\?.*)?$/;

const tag = findTag((script) => named.test(script.src));
const source = tag ? tag.src : '';
/** The currency of all orders: Matomo knows one for each site, our events one for each order. */
const currency = new URLSearchParams(source.split('?')[1]).get('currency') || undefined;

let address = source && source.replace(named, '/matomo.php');
let site: unknown;
/** Path and referrer that the page has set for what follows. */
let page: Partial<Report> = {};
/** Properties of the product on the page, until its page view is sent. */
let product: Properties | undefined;
/** Items of the next order, by their number. */
let cart: Record<string, Properties> = {};

/** Reasons for sending nothing: the page waits for consent, or the visitor objects. */
const missing = { consent: false, objection: false };
/** Commands of the time in which nothing may be sent. */
let waiting: Command[] = [];

const isSilent = (): boolean => missing.consent || missing.objection;

/** Returns an item or product without the values that the page leaves out. */
const item = (id: unknown, name: unknown, price: unknown, quantity?: unknown): Properties => ({
  item_id: String(id),
  item_name: name ? String(name) : undefined,
  price: price ? +price : undefined,
  quantity: quantity ? +quantity : undefined,
});

/** Sets where messages go. Neither a beacon nor a fetch can send to about:blank. */
const configure = (): void => {
  if (!address) return;
  callAt(address);
  readTag(tag, site);
  if (isSilent()) callAt('about:blank');
};

/** Returns a command that sets or clears a reason for sending nothing. */
const silence = (reason: keyof typeof missing, silent: boolean) => (): void => {
  missing[reason] = silent;
  configure();
  if (isSilent()) return;
  const commands = waiting;
  waiting = [];
  commands.forEach(run);
};

/** Reports whether the page handles an event of a link to the address. Its click is counted. */
const isClicked = (address: string): unknown => {
  const target = window.event?.target as Element | undefined;
  return auto && target?.closest?.<HTMLAnchorElement>('a, area')?.href === address;
};

const sendEvent = (e: unknown, m: Properties, automatic?: 1): void => void report({ ...page, e, m, a: automatic });

/** Commands that are executed also while nothing may be sent. */
const immediate: Record<string, (...values: any[]) => void> = {
  setTrackerUrl(url: string) {
    address = url;
    configure();
  },
  setSiteId(id) {
    site = id;
    configure();
  },
  setUserId: identifyBy,
  resetUserId: () => identifyBy(undefined),
  requireConsent: silence('consent', true),
  forgetConsentGiven: silence('consent', true),
  setConsentGiven: silence('consent', false),
  rememberConsentGiven: silence('consent', false),
  optUserOut: silence('objection', true),
  forgetUserOptOut: silence('objection', false),
};

/** The other commands. Those that have no meaning here are not listed, and ignored. */
const ordered: Record<string, (...values: any[]) => void> = {
  setCustomUrl(url) {
    page = { ...page, p: pathOf(url) };
  },
  setReferrerUrl(url) {
    page = { ...page, r: stripQuery(String(url)) };
  },

  trackPageView() {
    report(page);
    if (product) sendEvent('view_item', product);
    product = undefined;
  },
  trackEvent(category, action, name, value) {
    sendEvent(category, { action, name, value });
  },
  trackGoal(id, value) {
    sendEvent('goal_' + id, { value });
  },
  trackSiteSearch(term) {
    sendEvent('site_search', { term: [...String(term)].slice(0, 100).join('') }, 1);
  },
  trackLink(url, type) {
    const target = new URL(url, document.baseURI);
    const name = target.pathname.replace(/.*\//, '');
    if (type === 'download') sendEvent('file_download', { file: name, ext: name.replace(/.*\./, '').toLowerCase() }, 1);
    if (type === 'link' && !isClicked(target.href)) sendEvent('outbound_click', { host: target.hostname }, 1);
  },

  setEcommerceView(sku, name, _category, price) {
    product = sku ? item(sku, name, price) : undefined;
  },
  addEcommerceItem(sku, name, _category, price, quantity) {
    cart[sku] = item(sku, name, price, quantity || 1);
  },
  removeEcommerceItem(sku) {
    delete cart[sku];
  },
  clearEcommerceCart() {
    cart = {};
  },
  trackEcommerceOrder(id, total) {
    sendEvent('purchase', {
      transaction_id: String(id),
      value: +total,
      ...(currency && { currency }),
      items: Object.values(cart),
    });
    cart = {};
  },
};

const run = guard((call: Command): void => {
  const command = call[0];
  const values = call.slice(1);
  if (typeof command === 'function') command.apply(tracker, values);
  else if (immediate[command]) immediate[command](...values);
  else if (isSilent()) waiting.push(call);
  else ordered[command]?.(...values);
});

const tracker: Tracker = new Proxy(
  {},
  {
    // An object with this function would be taken for a promise.
    get: (_, command: string) => {
      const execute = (...values: unknown[]) => {
        run([command, ...values]);
        return '';
      };
      return command === 'then' ? undefined : execute;
    },
  },
);

/** Executes the commands with one of these names. Returns the others. */
const runFirst = (commands: Command[], ...names: string[]): Command[] => {
  const isFirst = (call: Command) => names.includes(call[0] as string);
  commands.filter(isFirst).forEach(run);
  return commands.filter((command) => !isFirst(command));
};

const install = (): void => {
  const claimed = claim();
  if (!claimed && window.Matomo) return;

  const getTracker = (url?: unknown, id?: unknown): Tracker => {
    if (url) run(['setTrackerUrl', url]);
    if (id) run(['setSiteId', id]);
    return tracker;
  };
  window.Matomo = window.Piwik = { initialized: true, getTracker, getAsyncTracker: getTracker };

  const list = (window._paq || []) as Command[];
  const calls = [...list];
  // The list stays the page's own: its name may be declared with let, apart from window._paq.
  window._paq = Object.assign(list, { push: (...commands: Command[]) => commands.forEach(run) });

  // As in Matomo's script, some commands come first, wherever they stand.
  const others = runFirst(calls, 'setTrackerUrl', 'setSiteId', 'setUserId');
  configure();
  if (claimed) start(false, '');
  runFirst(others, 'requireConsent').forEach(run);
  guard(() => (window.matomoAsyncInit || window.piwikAsyncInit)?.())();
};

guard(install)();
