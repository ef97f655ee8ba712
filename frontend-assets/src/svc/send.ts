import { answered } from './debug';
import type { Message, Payload, View } from './payload';
import { auto, debug, endpoint, siteKey } from './tag';

let userId: string | undefined;

/** Sets the pseudonymous user id of all later messages. Anything but a SHA-256 in hexadecimal clears it: no address slips out. */
export const identify = (hash: unknown): void => {
  const id = String(hash).toLowerCase();
  userId = /^[\da-f]{64}$/.test(id) ? id : undefined;
};

/** Sends one message about a page view, once: what gets lost stays lost. */
export const send = (view: View, message: Message): void => {
  post(
    JSON.stringify({
      k: siteKey!,
      ...view,
      w: screen.width,
      l: navigator.language,
      ...message,
      d: userId,
      a: auto ? undefined : 'off',
    } as Payload),
  );
};

// A string body makes both ways send text/plain, which needs no preflight.
const post = (body: string): void => {
  if (!debug && navigator.sendBeacon && navigator.sendBeacon(endpoint(), body)) return;
  answered(body, fetch(endpoint(), { method: 'POST', body, keepalive: true, credentials: 'omit' }));
};
