import assert from 'node:assert/strict';
import { browserFetch, define, load, table, test } from '../harness';

const api = load<typeof import('../../../src/captcha/widget/api')>('captcha/widget/api');

/** The page's timers, which a test fires itself. */
let timers: { run: () => void; milliseconds: number }[] = [];
define({
  window: {
    setTimeout(run: () => void, milliseconds: number) {
      timers.push({ run, milliseconds });
      return timers.length;
    },
  },
  clearTimeout: (id: number) => {
    if (id) timers[id - 1]!.run = () => {};
  },
});

const newSignal = (): AbortSignal => new AbortController().signal;

interface Response {
  status: number;
  json?: () => Promise<unknown>;
  headers?: Record<string, string>;
}

const respond = ({ status, json = async () => ({}), headers = {} }: Response) => ({
  ok: status < 300,
  status,
  json,
  headers: { get: (name: string) => headers[name] ?? null },
});

test('post sends JSON without a preflight or cookies', async () => {
  let sent: unknown[] = [];
  define({
    fetch: browserFetch(async (...all: unknown[]) => {
      sent = all;
      return respond({ status: 200, json: async () => ({ token: 't' }) });
    }),
  });
  assert.deepEqual(await api.post('http://c.test', 'verify', { sitekey: 'k', nonce: 7 }, newSignal()), { token: 't' });
  const [url, { signal, ...options }] = sent as [string, Record<string, unknown>];
  assert.equal(url, 'http://c.test/api/v1/pow/verify');
  assert.deepEqual(options, {
    method: 'POST',
    body: '{"sitekey":"k","nonce":7}',
    credentials: 'omit',
    referrerPolicy: 'origin',
  });
  assert(signal instanceof AbortSignal);
});

test('a response that is not a JSON object has no fields', async () => {
  define({ fetch: browserFetch(async () => respond({ status: 200, json: async () => null })) });
  assert.deepEqual(await api.post('', 'config', {}, newSignal()), {});
});

const error = async () => ({ error: 'the reason' });

// The statuses of the API (captcha contract, section 7), and those of servers in between.
table(
  'post reports',
  {
    '400': [{ status: 400, json: error }, 'refused', 'the reason', 0],
    '403': [{ status: 403, json: error }, 'setup', 'the reason', 0],
    '404': [{ status: 404, json: error }, 'setup', 'the reason', 0],
    '429': [{ status: 429, json: error, headers: { 'retry-after': '3' } }, 'busy', 'the reason', 3000],
    '500': [{ status: 500, json: error }, 'unreachable', 'the reason', 0],
    '503 with Retry-After': [{ status: 503, headers: { 'retry-after': '7' } }, 'unreachable', '', 7000],
    'an HTML error page': [{ status: 502, json: () => Promise.reject(new SyntaxError()) }, 'unreachable', '', 0],
    'an unknown status': [{ status: 418 }, 'unreachable', '', 0],
    'a success that is not JSON': [
      { status: 200, json: () => Promise.reject(new SyntaxError()) },
      'unreachable',
      '',
      0,
    ],
  } as Record<string, [Response, string, string, number]>,
  ([response, reason, detail, wait]) => {
    define({ fetch: browserFetch(async () => respond(response)) });
    return assert.rejects(api.post('', 'config', {}, newSignal()), { reason, detail, wait });
  },
);

test('post reports a network failure', () => {
  define({ fetch: browserFetch(() => Promise.reject(new TypeError('offline'))) });
  return assert.rejects(api.post('', 'config', {}, newSignal()), { reason: 'unreachable', wait: 0 });
});

// Retry-After is a number of seconds or a date, and waits are limited to an hour.
const inMinutes = (minutes: number): string => new Date(Date.now() + minutes * 60_000).toUTCString();

table(
  'Retry-After',
  {
    seconds: ['60', 60_000, 60_000],
    'a fraction': ['0.5', 500, 500],
    zero: ['0', 0, 0],
    negative: ['-5', 0, 0],
    'more than an hour': ['86400', 3_600_000, 3_600_000],
    'a date': [inMinutes(2), 110_000, 120_000],
    'a past date': [inMinutes(-2), 0, 0],
    'a date tomorrow': [inMinutes(1440), 3_600_000, 3_600_000],
    malformed: ['soon', 0, 0],
    empty: ['', 0, 0],
  } as Record<string, [string, number, number]>,
  async ([value, least, most]) => {
    define({ fetch: browserFetch(async () => respond({ status: 429, headers: { 'retry-after': value } })) });
    const problem = await api.post('', 'config', {}, newSignal()).then(
      () => undefined,
      (thrown) => thrown,
    );
    assert(problem.wait >= least && problem.wait <= most, `${problem.wait} ms`);
  },
);

/** Fires the page's timers. */
const fire = (): void => timers.forEach((each) => each.run());

test('withTimeout aborts an operation without progress', async () => {
  timers = [];
  let own: AbortSignal | undefined;
  const done = api.withTimeout(newSignal(), (signal) => {
    own = signal;
    return new Promise((_, reject) => signal.addEventListener('abort', () => reject(new Error('aborted'))));
  });
  assert.deepEqual(
    timers.map((each) => each.milliseconds),
    [20_000],
  );
  fire();
  assert.equal(own!.aborted, true);
  await assert.rejects(done, { message: 'aborted' });
});

test('keepAlive multiplies the timeout, in several short timers', () => {
  timers = [];
  let own: AbortSignal | undefined;
  void api.withTimeout(newSignal(), (signal, keepAlive) => {
    own = signal;
    keepAlive(3);
    return new Promise(() => {});
  });
  for (const want of [false, false, true]) {
    const { run, milliseconds } = timers[timers.length - 1]!;
    assert.equal(milliseconds, 20_000);
    run();
    assert.equal(own!.aborted, want);
  }
});

test('withTimeout passes the abort of the given signal on', () => {
  const controller = new AbortController();
  let own: AbortSignal | undefined;
  void api.withTimeout(controller.signal, (signal) => {
    own = signal;
    return new Promise(() => {});
  });
  assert.equal(own!.aborted, false);
  controller.abort();
  assert.equal(own!.aborted, true);
});
