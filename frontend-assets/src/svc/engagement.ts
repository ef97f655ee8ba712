// Time in view and scroll depth of the current page view.
//
// A page is in view while its tab is the visible one of its window. It need not have the keyboard's
// focus: who reads here while typing elsewhere, or plays a video in a frame, is still looking at
// it. A page that was never in view sends no engagement.
import { listen } from './guard';
import { send } from './send';

/** Milliseconds in view that have not been sent. */
let unsent = 0;
/** When the clock was last read. */
let readAt: number;
/** Whether the page has been in view since then. */
let visible: boolean;
/** Until when a click that led away keeps the leaving itself from sending. */
let quietUntil: number;
/** Lower edge of what has been seen of the page, in pixels. */
let deepest: number;

/** Adds the time since the clock was last read, if the page was in view. */
const readClock = (): void => {
  const now = performance.now();
  if (visible) unsent += now - readAt;
  readAt = now;
  visible = !document.hidden;
};

/**
 * Begins at zero, for a new page view. What is on the screen now may still be the old route's, so
 * it is not looked at.
 */
export const startEngagement = (): void => {
  readClock();
  unsent = quietUntil = deepest = 0;
};

/**
 * The deepest point seen, in percent of the page as high as it is now: a page that grew has been
 * seen to a lesser part.
 */
export const depth = (): number => {
  const page = document.scrollingElement || document.documentElement;
  deepest = Math.max(deepest, page.scrollTop + page.clientHeight);
  return Math.min(100, (100 * deepest) / page.scrollHeight || 0);
};

/**
 * Sends what has gathered since the last time, if anything. Called at every event that may be the
 * last one; several of them follow each other when a page is left, and only the first has something
 * to send.
 */
export const flush = (): void => {
  readClock();
  const ms = Math.round(unsent);
  // The click has sent the time up to it. The wait for the next page is not worth a second message,
  // unless it grows long.
  if (ms < 1 || readAt < quietUntil) return;
  unsent = 0;
  send({ t: 'engagement', ms, sc: Math.round(depth()) });
};

/** Sends before a click leads away, since what a dying page sends gets lost at times. */
export const flushBeforeLeaving = (): void => {
  flush();
  quietUntil = readAt + 1000;
};

/** Sends whenever the page is hidden or left. */
export const watchEngagement = (): void => {
  listen(document, 'visibilitychange', flush);
  listen(window, 'pagehide', () => {
    flush();
    // The page still calls itself visible here, and sometimes reports that it is hidden only
    // afterwards.
    visible = false;
  });
};
