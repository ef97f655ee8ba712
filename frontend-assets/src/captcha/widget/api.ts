/** Why no token could be had. */
export type Reason =
  | 'unreachable' // no answer, or a temporary failure: worth another try by itself
  | 'busy' // too many requests; wait says how long
  | 'setup' // the page names no sitekey, an unknown one, or is on a domain that the sitekey is not for
  | 'refused' // the challenge or the solution did not count; a new challenge may
  | 'unsupported'; // this browser cannot do the work

/** A failure with what to tell about it. */
export class Problem extends Error {
  constructor(
    readonly reason: Reason,
    /** For whoever set the page up, in English. */
    readonly detail = '',
    /** Milliseconds that the server asks to wait, or 0. */
    readonly wait = 0,
  ) {
    super(reason + ' ' + detail);
  }
}

/** How long one request may take in milliseconds. A connection that hangs is as bad as none, only slower. */
const patience = 20_000;

const reasons: Record<number, Reason> = { 400: 'refused', 403: 'setup', 404: 'setup', 429: 'busy' };

/**
 * Calls {captcha_url}/api/v1/pow/config or verify (captcha contract, section 4) and returns the answer's fields, which the caller
 * checks. Throws a Problem. The body is JSON called text, which spares the browser a preflight.
 */
export const post = async (api: string, path: string, body: object, signal: AbortSignal): Promise<Record<string, unknown>> => {
  const request = new AbortController();
  const cancel = () => request.abort();
  const timer = setTimeout(cancel, patience);
  signal.addEventListener('abort', cancel);
  try {
    const response = await fetch(`${api}/api/v1/pow/${path}`, {
      method: 'POST',
      body: JSON.stringify(body),
      credentials: 'omit',
      referrerPolicy: 'origin',
      signal: request.signal,
    });
    if (response.ok) return Object(await response.json());
    // A failure need not be ours: a proxy in between answers in HTML.
    const answer = await response.json().catch(() => ({}));
    throw new Problem(reasons[response.status] || 'unreachable', String(answer.error || ''), waitOf(response));
  } catch (problem) {
    throw problem instanceof Problem ? problem : new Problem('unreachable');
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', cancel);
  }
};

/** Retry-After in milliseconds: it counts seconds or names a date. At most an hour, 0 when there is none. */
const waitOf = (response: Response): number => {
  const text = response.headers.get('retry-after') || '';
  const wait = Number(text) * 1000 || Date.parse(text) - Date.now() || 0;
  return Math.min(Math.max(wait, 0), 3_600_000);
};
