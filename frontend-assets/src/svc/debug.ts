import { debug } from './tag';

/** Tells a site owner who opened the page with ?svc_debug; silent otherwise. */
export const say = (...words: unknown[]): void => {
  if (debug) console.log('svc', ...words);
};

/** Says what the server answered to a message. A beacon hides that, so messages go by fetch while debugging. */
export const answered = (body: string, response: Promise<Response>): void => {
  response
    .then(async (r) => say(body, r.status, await r.text()))
    // An unknown key or domain gets no CORS header, so that the browser hides the answer from the page.
    .catch((problem) => say(body, 'no answer: wrong site key or domain?', problem));
};
