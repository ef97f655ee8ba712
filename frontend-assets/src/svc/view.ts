import { campaign, cut, path } from './address';
import type { View } from './payload';

/** The page view that everything is now attributed to. */
export let current: View;

/** Returns a unique id: 8 random bytes in hexadecimal. */
const randomId = (): string =>
  crypto.getRandomValues(new Uint8Array(8)).reduce((hex, byte) => hex + (byte + 256).toString(16).slice(1), '');

/** Begins a view of the page that the address bar shows. */
export const beginView = (referrer: string | null): void => {
  current = { p: path(), r: referrer, i: randomId(), u: campaign() };
};

/** The address of the current page view, as the referrer of the next one. */
export const previous = (): string | null => cut(location.origin + current.p);
