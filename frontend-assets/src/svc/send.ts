import { isFetchOwn } from '../ownfetch';
import { log, logResponse } from './debug';
import { guard } from './guard';
import type { Message, Payload } from './payload';
import { auto, debug, endpoint, siteKey } from './tag';
import { currentView } from './view';

/**
 * Bytes that all requests which outlive the page may have in flight together. The browser's limit
 * is 64 KiB, and a fetch beyond it fails only later.
 */
const maxInFlight = 60_000;

let inFlight = 0;

let userId: string | undefined;

/**
 * Sets the pseudonymous user id of all later messages. Anything but a SHA-256 in hexadecimal clears
 * it, so that no e-mail address is sent by mistake.
 */
export const identify = (hash: unknown): void => {
  const id = String(hash).toLowerCase();
  userId = /^[\da-f]{64}$/.test(id) ? id : undefined;
};

/**
 * Undoes the toJSON that some old libraries give to all arrays, which makes texts of lists, or to all
 * objects. Other objects keep theirs, such as dates.
 */
function withoutToJSON(this: any, key: string, encoded: unknown): unknown {
  return [[], {}].some((plain: any) => plain.toJSON === Object(this[key]).toJSON) ? this[key] : encoded;
}

/** Encodes a message as JSON. Returns undefined if that fails, as with circular objects. */
const encode = guard((message: Message): string =>
  JSON.stringify(
    {
      k: siteKey!,
      ...currentView,
      w: screen.width,
      l: navigator.language,
      ...message,
      d: userId,
      a: auto ? undefined : 'off',
    } as Payload,
    withoutToJSON,
  ),
);

/** Sends by beacon. Returns false if the browser refuses more bytes, and undefined without a beacon. */
const sendByBeacon = guard((body: string): boolean => {
  const taken = navigator.sendBeacon(endpoint, body);
  if (taken) log(body, 'sent by beacon');
  return taken;
});

/**
 * Sends by a fetch that outlives the page. Returns false if too many bytes are in flight, and
 * undefined if fetch is not the browser's own.
 */
const sendByFetch = (body: string, size: number): boolean | undefined => {
  // Whether fetch can outlive the page, as a beacon does. Firefox's can since version 133.
  const keepalive = 'keepalive' in Request.prototype;
  if (!(keepalive || debug) || !isFetchOwn()) return undefined;
  if (inFlight + size > maxInFlight) return false;
  inFlight += size;
  const response = fetch(endpoint, { method: 'POST', body, keepalive, credentials: 'omit', priority: 'low' });
  logResponse(
    body,
    response.finally(() => (inFlight -= size)),
  );
  return true;
};

/** Sends by a request that ends with the page. Pages that replace fetch seldom replace this, too. */
const sendByRequest = (body: string): void => {
  const request = new XMLHttpRequest();
  request.open('POST', endpoint);
  request.onloadend = () => log(body, request.status, request.responseText);
  request.send(body);
};

/**
 * Sends one message about the current page view, without retries. Returns false if the message
 * cannot be encoded as JSON or is larger than 8 KB.
 *
 * All three ways send a string as text/plain, which needs no preflight. The first existing way
 * decides: a message that it refuses must not be sent with a wrong origin.
 */
export const send = (message: Message): boolean => {
  const body = encode(message);
  const size = new TextEncoder().encode(body).length;
  if (!body || size > 8192) return false;
  // Whether a beacon carries the page's origin under every Referrer-Policy. Under no-referrer and
  // same-origin, Firefox and WebKit send a beacon with "Origin: null", which the server refuses.
  const originInBeacon = /^Google/.test(navigator.vendor);
  const outlives =
    originInBeacon && !debug
      ? (sendByBeacon(body) ?? sendByFetch(body, size))
      : (sendByFetch(body, size) ?? sendByBeacon(body));
  if (!outlives) sendByRequest(body);
  return true;
};
