// Time in view and scroll depth of the current page view.
//
// A page is in view while its tab is the visible one of its window. It need not have the keyboard's focus: who reads here while
// typing elsewhere, or plays a video in a frame, is still looking at it. A page that was never in view sends no engagement.
import { listen } from './guard';
import { current } from './pageview';
import { depth, startDepth } from './depth';
import { send } from './send';

/** Milliseconds in view that have not been sent. */
let unsent = 0;
/** When the clock was last read. */
let readAt: number;
/** Whether the page has been in view since then. */
let visible: boolean;
/** When a click began to lead away. */
let leftAt: number;

/** Begins at zero, for a new page view. */
export const startEngagement = (): void => {
  unsent = 0;
  leftAt = -1e9;
  readAt = performance.now();
  visible = !document.hidden;
  startDepth();
};

/**
 * Sends what has gathered since the last time, if anything. Called at every moment that may be the last one; several of them
 * follow each other when a page is left, and only the first has something to send.
 */
export const flush = (): void => {
  const now = performance.now();
  if (visible) unsent += now - readAt;
  readAt = now;
  visible = !document.hidden;
  const ms = Math.round(unsent);
  // The click has sent the time up to it. The wait for the next page is not worth a second message, unless it grows long.
  if (ms < 1 || now - leftAt < 1000) return;
  unsent = 0;
  send(current, { t: 'engagement', ms, sc: depth() });
};

/** Sends before a click leads away, since what a dying page sends gets lost at times. */
export const flushBeforeLeaving = (): void => {
  flush();
  leftAt = performance.now();
};

/** Sends whenever the page is hidden or left. */
export const watchEngagement = (): void => {
  listen(document, 'visibilitychange', flush);
  listen(window, 'pagehide', () => {
    flush();
    // The page still calls itself visible here, and at times tells that it is hidden only afterwards.
    visible = false;
  });
};
