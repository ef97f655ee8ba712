import { currentPath, readCampaign, stripQuery } from './address';
import type { View } from './payload';

/** The page view that all messages are attributed to. */
export let currentView: View;

/** Returns a unique id: 8 random bytes in hexadecimal. */
const randomId = (): string =>
  crypto.getRandomValues(new Uint8Array(8)).reduce((hex, byte) => hex + (byte + 256).toString(16).slice(1), '');

/** Begins a view of the current address. */
export const beginView = (referrer: string | null): void => {
  currentView = { p: currentPath(), r: referrer, i: randomId(), u: readCampaign() };
};

/** Returns the address of the current page view, as the referrer of the next one. */
export const previousAddress = (): string | null => stripQuery(location.origin + currentView.p);
