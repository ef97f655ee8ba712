import { campaign, path } from './address';
import { flush, startEngagement } from './engagement';
import type { View } from './payload';
import { reportSearch } from './search';
import { send } from './send';

/** The page view that everything is now attributed to. */
export let current: View;

let automaticAt: number;

/** An id that nobody else has: 8 random bytes in hexadecimal. */
const randomId = (): string =>
  Array.from(crypto.getRandomValues(new Uint8Array(8)), (byte) => (byte + 256).toString(16).slice(1)).join('');

/** Counts a view of the page that the address bar shows, and closes the account of the one before. */
export const pageview = (referrer: string | null, manual?: 1): void => {
  const now = performance.now();
  // Routers that the script already follows often report the page too (contract, section 3).
  if (manual && current.p === path() && now - automaticAt <= 1000) return;
  flush();
  current = { p: path(), r: referrer, i: randomId(), u: campaign() };
  send(current, { t: 'pageview', x: manual });
  startEngagement();
  if (manual) return;
  automaticAt = now;
  reportSearch();
};

/** The address of the page view before the next one, as its referrer: origin and path. */
export const previous = (): string => location.origin + current.p;
