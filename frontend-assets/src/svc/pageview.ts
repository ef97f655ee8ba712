import { currentPath } from './address';
import { flush, startEngagement } from './engagement';
import { reportSearch } from './search';
import { send } from './send';
import { beginView, currentView, previousAddress } from './view';

/** Path and time of the last automatic page view. */
let automaticPath: string;
let automaticAt: number;

/** Sends the engagement of the previous page view, and then a page view of the current address. */
export const sendPageview = (referrer: string | null, manual?: 1): void => {
  const now = performance.now();
  // Routers that the script already follows often report the page too (contract, section 3).
  if (manual && automaticPath === currentPath() && now - automaticAt <= 1000) return;
  flush();
  beginView(referrer);
  send({ t: 'pageview', x: manual });
  startEngagement();
  if (manual) return;
  automaticPath = currentPath();
  automaticAt = now;
  reportSearch();
};

/**
 * Sends a page view if the path has changed in a single-page application. Changes of query or
 * fragment only do not count.
 */
export const sendRoute = (): void => {
  if (currentView.p !== currentPath()) sendPageview(previousAddress());
};
