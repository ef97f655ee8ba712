import assert from 'node:assert/strict';
import { define, load, loadSame, table, test } from '../harness';

type Api = typeof import('../../../src/console/core/api');
type Patiently = typeof import('../../../src/console/parts/patiently');

define({ location: { pathname: '/' } });

/** Answers each request with the next of these bodies, and returns what was requested. */
const answer = (...bodies: string[]): { query: string; variables: unknown }[] => {
  const requests: { query: string; variables: unknown }[] = [];
  define({
    fetch: async (address: string, init: RequestInit) => {
      assert.equal(address, '/graphql');
      requests.push(JSON.parse(init.body as string));
      return new Response(bodies.shift());
    },
  });
  return requests;
};

test('an operation posts its document and returns the data', async () => {
  const { operation } = load<Api>('console/core/api');
  const requests = answer('{"data": {"site": null}}');
  assert.deepEqual(await operation('query Site')({ id: 'a' }), { site: null });
  assert.deepEqual(requests, [{ query: 'query Site', variables: { id: 'a' } }]);
});

table(
  'cookies of a page',
  {
    console: { pathname: '/sites/site_x', credentials: 'same-origin' },
    'shared report': { pathname: '/share', credentials: 'same-origin' },
    'report in a frame': { pathname: '/embed/sharedlink_x', credentials: 'omit' },
  },
  async ({ pathname, credentials }) => {
    define({ location: { pathname } });
    const { operation } = load<Api>('console/core/api');
    define({
      fetch: async (_: string, init: RequestInit) => {
        assert.equal(init.credentials, credentials);
        return new Response('{"data": {}}');
      },
    });
    await operation('mutation OpenSharedLink')({});
  },
);

table(
  'failure',
  {
    throttled: {
      body: '{"data": null, "errors": [{"message": "Wait.", "extensions": {"code": "RATE_LIMITED", "retryAfter": 7}}]}',
      want: { code: 'RATE_LIMITED', message: 'Wait.', retryAfter: 7 },
    },
    internal: {
      body: '{"errors": [{"message": "Oh.", "extensions": {"code": "INTERNAL", "requestId": "r"}}]}',
      want: { code: 'INTERNAL', message: 'Oh.', requestId: 'r' },
    },
    'no extensions': { body: '{"errors": [{"message": "Oh."}]}', want: { code: 'INTERNAL', message: 'Oh.' } },
    'page of a proxy': {
      body: '<html>',
      want: { code: 'UNAVAILABLE', message: 'The server answered with status 200.' },
    },
  },
  async ({ body, want }) => {
    const { operation } = load<Api>('console/core/api');
    answer(body);
    await assert.rejects(operation('query A')({}), want);
  },
);

test('without a connection an operation fails, and after an abort it rejects with the reason', async () => {
  const { operation } = load<Api>('console/core/api');
  define({ fetch: () => Promise.reject(new TypeError('network')) });
  await assert.rejects(operation('query A')({}), { code: 'OFFLINE' });
  await assert.rejects(operation('query A')({}, AbortSignal.abort()), { name: 'TypeError' });
});

test('mutations run one after the other, also after a failed one; queries do not wait', async () => {
  const { operation } = load<Api>('console/core/api');
  const started: string[] = [];
  const pending: ((r: Response) => void)[] = [];
  define({
    fetch: (_: string, init: RequestInit) => {
      started.push((JSON.parse(init.body as string) as { query: string }).query);
      return new Promise<Response>((resolve) => pending.push(resolve));
    },
  });

  const first = operation('mutation First')({});
  const second = operation('mutation Second')({});
  const query = operation('query Third')({});
  await new Promise(setImmediate);
  assert.deepEqual(started.sort(), ['mutation First', 'query Third']);

  // The query was sent first, because a mutation starts after a microtask.
  for (const resolve of pending.splice(0)) resolve(new Response('{"errors": [{"message": "Oh."}]}'));
  await assert.rejects(first);
  await assert.rejects(query);
  await new Promise(setImmediate);
  assert.deepEqual(started.slice(2), ['mutation Second']);
  pending[0]!(new Response('{"data": {"second": true}}'));
  assert.deepEqual(await second, { second: true });
});

test('a call that the rate limit refuses is run again after the time that the server names', async () => {
  const { Failure } = load<Api>('console/core/api');
  const { patiently } = loadSame<Patiently>('console/parts/patiently');
  const waits: number[] = [];
  define({ setTimeout: (run: () => void, ms: number) => (waits.push(ms), queueMicrotask(run)) });

  const seconds: number[] = [];
  let calls = 0;
  const call = async (): Promise<string> => {
    calls++;
    if (calls === 1) throw new Failure('RATE_LIMITED', '', 7);
    if (calls === 2) throw new Failure('RATE_LIMITED', '');
    return 'rows';
  };
  assert.equal(await patiently(call, (n) => seconds.push(n), new AbortController().signal), 'rows');
  assert.deepEqual(seconds, [7, 0, 1, 0]);
  assert.ok(waits[0]! >= 7000 && waits[1]! >= 1000, String(waits));

  const other = async (): Promise<never> => {
    throw new Failure('FORBIDDEN', 'No.');
  };
  await assert.rejects(patiently(other, () => undefined, new AbortController().signal), { code: 'FORBIDDEN' });
});

test('the wait for a rate limit ends with an abort', async () => {
  const { Failure } = load<Api>('console/core/api');
  const { patiently } = loadSame<Patiently>('console/parts/patiently');
  define({ setTimeout: () => 0 });
  const stop = new AbortController();
  const refused = async (): Promise<never> => {
    throw new Failure('RATE_LIMITED', '', 60);
  };
  const waiting = patiently(refused, () => stop.abort(), stop.signal);
  await assert.rejects(waiting, { name: 'AbortError' });
});
