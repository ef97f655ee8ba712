import { log, logResponse } from './debug';
import type { Message, Payload } from './payload';
import { auto, debug, endpoint, siteKey } from './tag';
import { currentView } from './view';

/**
 * Whether fetch outlives the page, as a beacon does. If so, it is preferred: under Referrer-Policy
 * no-referrer or same-origin, Firefox and WebKit send a beacon with "Origin: null", which the
 * server refuses. A request in CORS mode carries the page's origin.
 */
const keepalive = 'keepalive' in Request.prototype;

let userId: string | undefined;

/**
 * Sets the pseudonymous user id of all later messages. Anything but a SHA-256 in hexadecimal clears
 * it, so that no e-mail address is sent by mistake.
 */
export const identify = (hash: unknown): void => {
  const id = String(hash).toLowerCase();
  userId = /^[\da-f]{64}$/.test(id) ? id : undefined;
};

/** Encodes a message as JSON. Returns an empty string if that fails, as with circular objects. */
const encode = (message: Message): string => {
  try {
    return JSON.stringify({
      k: siteKey!,
      ...currentView,
      w: screen.width,
      l: navigator.language,
      ...message,
      d: userId,
      a: auto ? undefined : 'off',
    } as Payload);
  } catch (problem) {
    log(problem);
    return '';
  }
};

/**
 * Sends one message about the current page view, without retries. Returns false if the message
 * cannot be encoded as JSON or is larger than 8 KB.
 */
export const send = (message: Message): boolean => {
  const body = encode(message);
  const fits = !!body && new TextEncoder().encode(body).length <= 8192;
  if (!fits || (!keepalive && !debug && navigator.sendBeacon && navigator.sendBeacon(endpoint(), body))) return fits;
  // With a string body, both fetch and beacon send text/plain, which needs no preflight.
  logResponse(body, fetch(endpoint(), { method: 'POST', body, keepalive: true }));
  return true;
};
