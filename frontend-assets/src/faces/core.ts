// What all faces share. A face is the browser script with another product's tag and functions: it
// sends our messages, by our rules, to the other product's path.
import { stripQuery } from '../svc/address';
import { log } from '../svc/debug';
import { flush, startEngagement, watchEngagement } from '../svc/engagement';
import { sendEvent } from '../svc/event';
import { guard, listen } from '../svc/guard';
import { watchLinks } from '../svc/links';
import { optOutReason } from '../svc/privacy';
import { watchRoutes } from '../svc/routes';
import { watchScroll } from '../svc/scroll';
import { reportSearch } from '../svc/search';
import { identify, send } from '../svc/send';
import { beginView, currentView, previousAddress } from '../svc/view';
import { ownName } from './names';
import { auto, endpoint, keyFolder, siteKey } from './tag';

/**
 * A page view or an event before it is sent, as filters of the page see it. The keys are the
 * message's.
 */
export interface Report {
  /** Name of an event in the page's words. A page view has none. */
  e?: unknown;
  /** Properties of an event. */
  m?: unknown;
  /** Path that the page names. Otherwise the path of the address, or for events of the page view. */
  p: string;
  /** Referrer without query that the page names. Otherwise the previous page, or the document's. */
  r: string | null;
  /** 1 for a page view that the page has asked for. */
  x?: 1 | undefined;
  /** 1 for an event that has the name of an automatic one, and means it. */
  a?: 1 | undefined;
}

/** Returns the report to send, by value or promise. Nothing is sent for a falsy one. */
type Filter = (report: Report) => unknown;

let passes: Filter | undefined | false | '';
/** Reason why nothing is sent. At first: another script counts. */
let stopped: unknown = 1;

/** Whether a page view has been sent. */
let viewed: unknown;
/** Path of the last automatic page view, and the time until which a manual one repeats it. */
let automaticPath: string;
let automaticUntil: number;

/** Matches a fragment that is a route of the page: none, unless its router works with fragments. */
let route = /.^/;

/** The last step of inOrder. */
let last = Promise.resolve<unknown>(0);

/**
 * Runs a step after all earlier ones. Some steps wait: for a filter of the page that returns a
 * promise, for a hash, or for a prerendered page to be shown. Otherwise an event could overtake its
 * page view. Returns a promise that resolves after the step, even if it fails.
 */
const inOrder = (step: () => unknown): Promise<unknown> => (last = last.then(step).catch(log));

/** Takes the path from fragments that look like one. Other fragments may hold secrets. */
export const followFragment = (): void => {
  route = /^#!?(\/[^?#]*)/;
};

/** Returns the path of an address as it is sent: never the query, nor another fragment. */
export const pathOf = (address: unknown): string => {
  const url = new URL(address as string, location.href);
  return ((route.exec(url.hash) || [])[1] || url.pathname).slice(0, 2048);
};

/** Sends a page view as sendPageview of the browser script does, but of any path. */
const sendView = (view: Report): void => {
  const now = performance.now();
  // Pages often report the page that the script has followed, too.
  if (view.x && view.p === automaticPath && now <= automaticUntil) return;
  flush();
  beginView(view.r);
  currentView.p = view.p;
  send({ t: 'pageview', x: view.x });
  startEngagement();

  // Engagement and automatic events belong to a page view.
  if (!viewed) {
    viewed = 1;
    watchEngagement();
    watchScroll();
    watchLinks();
  }
  if (view.x) return;
  automaticPath = view.p;
  automaticUntil = now + 1000;
  reportSearch();
};

/** Sends an event, which may name another path than the page view's. */
const sendNamed = (event: Report): void => {
  const name = event.a ? (event.e as string) : ownName(event.e, event.m);
  if (!name) return;
  // An event before any page view needs an id, but there is no page view that it belongs to.
  if (!currentView) beginView(event.r);
  const path = currentView.p;
  currentView.p = event.p;
  sendEvent(name, event.m);
  currentView.p = path;
};

/** Returns a report with what the page does not name. here is the path at the time of the call. */
export const complete = (given: Partial<Report>, here = pathOf(location)): Report => ({
  p: given.e && viewed ? currentView.p : here,
  r: viewed ? previousAddress() : stripQuery(document.referrer),
  ...given,
});

/** Sends a page view or an event after all earlier ones, if the page's filter lets it pass. */
export const report = (given: Partial<Report>): Promise<unknown> => {
  // A step that waits finds another address.
  const here = pathOf(location);
  return inOrder(async () => {
    if (stopped) return;
    const whole = complete(given, here);
    const kept = (passes ? await passes(whole) : whole) as Report;
    if (kept) (kept.e ? sendNamed : sendView)(kept);
  });
};

/** Sets the user id of all later messages: the SHA-256 of a text, a text that is one, or none. */
export const identifyBy = (id: unknown): Promise<unknown> =>
  inOrder(async () => {
    // Anything but a hash clears the user id.
    identify(id);
    // Only secure pages have the function.
    if (!id || /^[\da-f]{64}$/i.test(id as string) || !crypto.subtle) return;
    const hash = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(id as string));
    identify(new Uint8Array(hash).reduce((hex, byte) => hex + (byte + 256).toString(16).slice(1), ''));
  });

/** Executes a call of svc: a page can change its calls one by one. */
const handleCall = (call: Call): void => {
  if (call[0] === 'identify') inOrder(() => identify(call[1]));
  if (call[0] === 'event') report({ e: call[1], m: call[2] });
  if (call[0] === 'pageview') report({ x: 1 });
};

/**
 * Claims the page. Returns false if the browser script or another face measures it: of all of them
 * the first counts.
 */
export const claim = (): boolean => {
  const stub: Partial<Svc> = window.svc || {};
  if (stub.on) return false;
  const svc: Svc = (window.svc = (...call) => void svc.q!.push(call));
  svc.q = [...((stub.q as Call[] | undefined) || [])];
  return (svc.on = true);
};

/**
 * Starts a face on a page that it has claimed.
 *
 * @param automatic - whether page views are sent by themselves, at load and on changes of the route
 * @param reason - why the page sends nothing, in addition to our own reasons
 */
export const start = (automatic: unknown, reason: unknown, filter?: Filter | false | ''): void => {
  passes = filter;
  stopped = optOutReason() || reason;
  if (stopped) log('sends nothing:', stopped);
  // A website's own proxy may add the key to the path.
  else if (!siteKey && !endpoint.startsWith(location.origin) && !keyFolder(endpoint))
    console.warn('svc: no site key');

  // A prerendered page counts when it is shown.
  if (document.prerendering) inOrder(() => new Promise((shown) => listen(document, 'prerenderingchange', shown)));

  const svc = window.svc!;
  const calls = svc.q as Call[];
  svc.q = { push: guard(handleCall) };
  // The first page view already carries the user id.
  calls.filter((call) => call[0] === 'identify').forEach(svc.q.push);
  if (automatic) report({});
  calls.forEach(svc.q.push);
  if (!automatic || stopped) return;

  // The back/forward cache restored the document, which is a new page view.
  listen(window, 'pageshow', (shown: PageTransitionEvent) => {
    if (!shown.persisted) return;
    startEngagement();
    report({ r: currentView.r });
  });

  // The page may have named another path for its view, so that the address is compared with itself.
  let lastPath = pathOf(location);
  const checkPath = guard(() => {
    const path = pathOf(location);
    if (path !== lastPath) report({});
    lastPath = path;
  });
  // This comes last because it throws on a page that has frozen its history functions.
  if (auto) watchRoutes(checkPath);
};
