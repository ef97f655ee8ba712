import { request } from '../request';

/** Why there is no token. */
export type Reason =
  | 'unreachable' // no response, or a temporary failure: worth a retry
  | 'busy' // too many requests; wait is the time until the next one
  | 'setup' // the sitekey is missing, unknown or bound to other domains
  | 'refused' // the challenge or the solution was rejected; a new challenge may be accepted
  | 'unsupported'; // the browser cannot do the work

/** A failure as the widget reports it. */
export class Problem extends Error {
  constructor(
    readonly reason: Reason,
    /** For the page's author: the server's message in English, or the host that was not reached. */
    readonly detail = '',
    /** Milliseconds that the server asks to wait, or 0. */
    readonly wait = 0,
  ) {
    super(reason);
  }
}

/** Milliseconds without progress after which an operation is aborted, such as a hanging request. */
const timeout = 20_000;

/** Restarts the timeout, multiplied by `times`. */
export type KeepAlive = (times?: number) => void;

const reasons: Record<number, Reason> = { 400: 'refused', 403: 'setup', 404: 'setup', 429: 'busy' };

/**
 * Runs an operation with a signal that is aborted with the given one, or when the operation has not
 * called keepAlive for the length of the timeout.
 */
export const withTimeout = async <T>(
  signal: AbortSignal,
  run: (signal: AbortSignal, keepAlive: KeepAlive) => Promise<T>,
): Promise<T> => {
  const own = new AbortController();
  const abort = () => own.abort();
  let timer = 0;
  // Several short timers are used instead of a long timer. In a tab that was frozen meanwhile, a
  // long timer would fire before the operation could continue.
  const keepAlive = (times = 1) => {
    clearTimeout(timer);
    timer = window.setTimeout(() => (times > 1 ? keepAlive(times - 1) : abort()), timeout);
  };
  keepAlive();
  signal.addEventListener('abort', abort);
  try {
    return await run(own.signal, keepAlive);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', abort);
  }
};

/**
 * Calls {captcha_url}/api/v1/pow/config or verify (captcha contract, section 4) and returns the
 * fields of the response, which the caller validates. It throws a Problem.
 */
export const post = (api: string, path: string, body: object, signal: AbortSignal): Promise<Record<string, unknown>> =>
  withTimeout(signal, async (signal) => {
    const text = JSON.stringify(body);
    const response = await request(`${api}/api/v1/pow/${path}`, text, signal);
    if (response.ok) return Object(await response.json());
    // The error may come from a proxy in between, which answers in HTML.
    const answer = Object(await response.json().catch(() => 0));
    throw new Problem(reasons[response.status] || 'unreachable', String(answer.error || ''), retryAfter(response));
  }).catch((problem) => {
    throw problem instanceof Problem ? problem : new Problem('unreachable');
  });

/**
 * Returns Retry-After, which is a number of seconds or a date, in milliseconds: at most an hour, and
 * 0 when it is missing or malformed.
 */
const retryAfter = (response: Response): number => {
  const text = response.headers.get('retry-after') || '';
  const wait = Number(text) * 1000 || Date.parse(text) - Date.now() || 0;
  return Math.min(Math.max(wait, 0), 3_600_000);
};
