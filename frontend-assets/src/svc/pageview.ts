import { path } from './address';
import { flush, startEngagement } from './engagement';
import { reportSearch } from './search';
import { send } from './send';
import { beginView } from './view';

/** Path and time of the last automatic page view. */
let automaticPath: string;
let automaticAt: number;

/**
 * Counts a view of the page that the address bar shows, and closes the account of the one before.
 */
export const pageview = (referrer: string | null, manual?: 1): void => {
  const now = performance.now();
  // Routers that the script already follows often report the page too (contract, section 3).
  if (manual && automaticPath === path() && now - automaticAt <= 1000) return;
  flush();
  beginView(referrer);
  send({ t: 'pageview', x: manual });
  startEngagement();
  if (manual) return;
  automaticPath = path();
  automaticAt = now;
  reportSearch();
};
