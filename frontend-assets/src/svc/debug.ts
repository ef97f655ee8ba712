import { debug } from './tag';

/** Logs to the console if the page was opened with ?svc_debug. */
export const log = (...values: unknown[]): void => {
  if (debug) console.log('svc', ...values);
};

/**
 * Logs the server's response to a message. The response to a beacon cannot be read, so debug mode
 * always sends with fetch.
 */
export const logResponse = (body: string, response: Promise<Response>): void => {
  response
    .then(async (r) => log(body, r.status, await r.text()))
    // The server sends no CORS header for an unknown key or domain, so the browser hides the
    // response from the page.
    .catch((problem) => log(body, 'no answer: wrong site key or domain?', problem));
};
