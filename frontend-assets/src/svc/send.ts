import { answered } from './debug';
import type { Message, Payload } from './payload';
import { auto, debug, endpoint, siteKey } from './tag';
import { current } from './view';

let userId: string | undefined;

/** Sets the pseudonymous user id of all later messages. Anything but a SHA-256 in hexadecimal clears it: no address slips out. */
export const identify = (hash: unknown): void => {
  const id = String(hash).toLowerCase();
  userId = /^[\da-f]{64}$/.test(id) ? id : undefined;
};

/** Sends one message about the current page view, once: what gets lost stays lost. False when it is larger than 8 KB. */
export const send = (message: Message): boolean => {
  const body = JSON.stringify({
    k: siteKey!,
    ...current,
    w: screen.width,
    l: navigator.language,
    ...message,
    d: userId,
    a: auto ? undefined : 'off',
  } as Payload);
  const fits = new TextEncoder().encode(body).length <= 8192;
  // A string body makes both ways send text/plain, which needs no preflight.
  if (fits && (debug || !navigator.sendBeacon || !navigator.sendBeacon(endpoint(), body)))
    answered(body, fetch(endpoint(), { method: 'POST', body, keepalive: true }));
  return fits;
};
