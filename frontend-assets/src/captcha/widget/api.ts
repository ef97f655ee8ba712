/** Why there is no token. */
export type Reason =
  | 'unreachable' // no answer, or a temporary failure: worth a retry
  | 'busy' // too many requests; wait says how long
  | 'setup' // the page names no sitekey, an unknown one, or is on a domain that the sitekey is not for
  | 'refused' // the challenge or the solution was rejected; a new challenge may be accepted
  | 'unsupported'; // this browser cannot do the work

/** A failure as the widget reports it. */
export class Problem extends Error {
  constructor(
    readonly reason: Reason,
    /**
     * For the page's author: the server's sentence in English, or the host that was not reached.
     */
    readonly detail = '',
    /** Milliseconds that the server asks to wait, or 0. */
    readonly wait = 0,
  ) {
    super(reason + ' ' + detail);
  }
}

/**
 * How long nothing may happen, in milliseconds. A connection that hangs is as bad as none, only
 * slower.
 */
const patience = 20_000;

/** Gives so many times the usual patience from now on. */
export type Alive = (times?: number) => void;

const reasons: Record<number, Reason> = { 400: 'refused', 403: 'setup', 404: 'setup', 429: 'busy' };

/**
 * Lets something happen that ends with its signal: the given one, or when it has neither ended nor
 * shown a sign of life for too long.
 */
export const bounded = async <T>(signal: AbortSignal, happen: (signal: AbortSignal, alive: Alive) => Promise<T>): Promise<T> => {
  const own = new AbortController();
  const cancel = () => own.abort();
  let timer = 0;
  // Not one long timer: a tab that was frozen meanwhile finds a timer over before it has done
  // anything.
  const alive = (times = 1) => {
    clearTimeout(timer);
    timer = window.setTimeout(() => (times > 1 ? alive(times - 1) : cancel()), patience);
  };
  alive();
  signal.addEventListener('abort', cancel);
  try {
    return await happen(own.signal, alive);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', cancel);
  }
};

/**
 * Calls {captcha_url}/api/v1/pow/config or verify (captcha contract, section 4) and returns the
 * answer's fields, which the caller checks. Throws a Problem. The body is JSON called text, which
 * spares the browser a preflight.
 */
export const post = (api: string, path: string, body: object, signal: AbortSignal): Promise<Record<string, unknown>> =>
  bounded(signal, async (signal) => {
    const response = await fetch(`${api}/api/v1/pow/${path}`, {
      method: 'POST',
      body: JSON.stringify(body),
      credentials: 'omit',
      referrerPolicy: 'origin',
      signal,
    });
    if (response.ok) return Object(await response.json());
    // A failure need not be ours: a proxy in between answers in HTML.
    const answer = Object(await response.json().catch(() => 0));
    throw new Problem(reasons[response.status] || 'unreachable', String(answer.error || ''), waitOf(response));
  }).catch((problem) => {
    throw problem instanceof Problem ? problem : new Problem('unreachable');
  });

/**
 * Retry-After in milliseconds: it counts seconds or names a date. At most an hour, 0 when there is
 * none.
 */
const waitOf = (response: Response): number => {
  const text = response.headers.get('retry-after') || '';
  const wait = Number(text) * 1000 || Date.parse(text) - Date.now() || 0;
  return Math.min(Math.max(wait, 0), 3_600_000);
};
