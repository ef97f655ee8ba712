// Time in view and scroll depth of the current page view.
//
// A page is in view while its tab is visible in its window. Keyboard focus is not required: a
// visitor who reads here while typing in another window, or plays a video in a frame, is still
// looking at the page. A page that was never in view sends no engagement.
import { listen } from './guard';
import { send } from './send';

/** Milliseconds in view that have not been sent. */
let unsent = 0;
/** Time of the last clock reading. */
let readAt: number;
/** Whether the page has been in view since the last clock reading. */
let visible: boolean;
/** Until this time, leaving the page sends nothing, because the click that led away has. */
let quietUntil: number;
/** Lower edge of the lowest position seen, in pixels. */
let deepest: number;

/** Adds the time since the last clock reading, if the page was in view. */
const readClock = (): void => {
  const now = performance.now();
  if (visible) unsent += now - readAt;
  readAt = now;
  visible = !document.hidden;
};

/**
 * Resets engagement for a new page view. The scroll position is not read yet, because the screen may
 * still show the previous route.
 */
export const startEngagement = (): void => {
  readClock();
  unsent = quietUntil = deepest = 0;
};

/**
 * Returns the deepest position seen, in percent of the page's current height. The percentage of a
 * page that grows goes down.
 */
export const depth = (): number => {
  const page = document.scrollingElement || document.documentElement;
  deepest = Math.max(deepest, page.scrollTop + page.clientHeight);
  return Math.min(100, (100 * deepest) / page.scrollHeight || 0);
};

/**
 * Sends the time in view since the last message, if any. It is called at every event that may be
 * the page's last one. When several of them occur, only the first has something to send.
 */
export const flush = (): void => {
  readClock();
  const ms = Math.round(unsent);
  // The click has already sent the time before it. The wait for the next page is not worth a second
  // message, unless it takes long.
  if (!ms || readAt < quietUntil) return;
  unsent = 0;
  send({ t: 'engagement', ms, sc: Math.round(depth()) });
};

/** Flushes before a click leads away, because messages of a page that unloads are sometimes lost. */
export const flushBeforeLeaving = (): void => {
  flush();
  quietUntil = readAt + 1000;
};

/** Flushes whenever the page is hidden or left. */
export const watchEngagement = (): void => {
  listen(document, 'visibilitychange', flush);
  listen(window, 'pagehide', () => {
    flush();
    // At this event the document still reports that it is visible. Some browsers report the change
    // only afterwards.
    visible = false;
  });
};
