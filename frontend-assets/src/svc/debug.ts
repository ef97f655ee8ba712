import { debug } from './tag';

/** Logs to the console if the page was opened with ?svc_debug. */
export const say = (...words: unknown[]): void => {
  if (debug) console.log('svc', ...words);
};

/**
 * Says what the server answered to a message. A beacon hides that, so messages go by fetch while
 * debugging.
 */
export const answered = (body: string, response: Promise<Response>): void => {
  response
    .then(async (r) => say(body, r.status, await r.text()))
    // An unknown key or domain gets no CORS header, so that the browser hides the answer from the
    // page.
    .catch((problem) => say(body, 'no answer: wrong site key or domain?', problem));
};
