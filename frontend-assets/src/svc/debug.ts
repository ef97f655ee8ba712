import { debug } from './tag';

/** Logs to the console if the page was opened with ?svc_debug. */
export const log = (...values: unknown[]): void => {
  if (debug) console.log('svc', ...values);
};

/**
 * Logs the server's response to a message. The response to a beacon cannot be read, so debug mode
 * prefers fetch.
 */
export const logResponse = (body: string, response: Promise<Response>): void => {
  response.then(async (r) => log(body, r.status, await r.text())).catch((problem) => log(body, 'no answer', problem));
};
