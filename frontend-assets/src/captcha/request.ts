import { isFetchOwn } from '../ownfetch';

/**
 * Calls the captcha's server: a POST if there is a body, which is sent as text/plain and so needs no
 * preflight. Rejects if there is no response or the signal is aborted. Where the page has replaced
 * fetch, XMLHttpRequest sends the call; it sends cookies to the page's own origin, and fetch never does.
 */
export const request = (url: string, body?: string, signal?: AbortSignal): Promise<Response> => {
  const method = body ? 'POST' : 'GET';
  if (!isFetchOwn()) return requestWithoutFetch(method, url, body, signal);
  return fetch(url, { method, body: body!, credentials: 'omit', referrerPolicy: 'origin', signal: signal! });
};

const requestWithoutFetch = async (
  method: string,
  url: string,
  body?: string,
  signal?: AbortSignal,
): Promise<Response> => {
  const call = new XMLHttpRequest();
  const abort = () => call.abort();
  call.open(method, url);
  call.responseType = 'arraybuffer';
  signal?.addEventListener('abort', abort);
  await new Promise((resolve) => {
    call.onloadend = resolve;
    call.send(body ?? null);
    if (signal?.aborted) abort();
  });
  signal?.removeEventListener('abort', abort);
  // Response rejects status 0, which a failed or aborted call has.
  // To ask for a header that the server does not expose would log an error.
  const wait = /^retry-after:\s*(.*)/im.exec(call.getAllResponseHeaders());
  return new Response(call.response, { status: call.status, headers: wait ? { 'retry-after': wait[1]! } : {} });
};
