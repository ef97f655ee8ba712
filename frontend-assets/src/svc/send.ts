import { answered, say } from './debug';
import type { Message, Payload } from './payload';
import { auto, debug, endpoint, siteKey } from './tag';
import { current } from './view';

/**
 * Whether fetch outlives the page, as a beacon does. Then it is preferred: under Referrer-Policy
 * no-referrer or same-origin, Firefox and WebKit send a beacon with "Origin: null", which the
 * server refuses; a request in CORS mode carries the page's origin.
 */
const keepalive = 'keepalive' in Request.prototype;

let userId: string | undefined;

/**
 * Sets the pseudonymous user id of all later messages. Anything but a SHA-256 in hexadecimal clears
 * it: no address slips out.
 */
export const identify = (hash: unknown): void => {
  const id = String(hash).toLowerCase();
  userId = /^[\da-f]{64}$/.test(id) ? id : undefined;
};

/** Writes a message as JSON; empty when it has what JSON does not know, such as circles. */
const write = (message: Message): string => {
  try {
    return JSON.stringify({
      k: siteKey!,
      ...current,
      w: screen.width,
      l: navigator.language,
      ...message,
      d: userId,
      a: auto ? undefined : 'off',
    } as Payload);
  } catch (problem) {
    say(problem);
    return '';
  }
};

/**
 * Sends one message about the current page view, once: what gets lost stays lost. Returns false
 * when it cannot be written as JSON, or is larger than 8 KB.
 */
export const send = (message: Message): boolean => {
  const body = write(message);
  const fits = !!body && new TextEncoder().encode(body).length <= 8192;
  if (!fits || (!keepalive && !debug && navigator.sendBeacon && navigator.sendBeacon(endpoint(), body))) return fits;
  // A string body makes both ways send text/plain, which needs no preflight.
  answered(body, fetch(endpoint(), { method: 'POST', body, keepalive: true }));
  return true;
};
