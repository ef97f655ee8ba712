// How far down the page has been seen.

/** Lower edge of what has been seen of the page, in pixels. */
let deepest: number;

/** Begins at the top, for a new page view. What is on the screen now may still be the old route's, so it is not looked at. */
export const startDepth = (): void => {
  deepest = 0;
};

/** The deepest point in percent of the page as high as it is now: a page that grew has been seen to a lesser part. */
export const depth = (): number => {
  const page = document.scrollingElement || document.documentElement;
  deepest = Math.max(deepest, page.scrollTop + page.clientHeight);
  return Math.min(100, Math.round((100 * deepest) / page.scrollHeight) || 0);
};
