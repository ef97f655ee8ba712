import assert from 'node:assert/strict';
import { browserFetch, define, load, loadSame, table, test } from '../harness';
import { readModule } from './vectors';

type Pool = typeof import('../../../src/captcha/engine/pool');
type Failures = typeof import('../../../src/captcha/engine/failures');

/** Replaces the browser's workers, and returns what happened to them. */
const stub = (options: { processors?: unknown; trustedTypes?: unknown; failAt?: number } = {}) => {
  const seen = { started: [] as unknown[], ended: 0, revoked: 0, workers: [] as any[] };
  define({
    window: { trustedTypes: options.trustedTypes },
    navigator: { hardwareConcurrency: options.processors },
    URL: { createObjectURL: () => 'blob:1', revokeObjectURL: () => seen.revoked++ },
    Blob: class {},
    Worker: class {
      onmessage: ((event: { data: unknown }) => void) | null = null;
      onerror: ((event: object) => void) | null = null;
      constructor(url: unknown) {
        if (seen.started.length === options.failAt) throw new Error('refused');
        seen.started.push(url);
        seen.workers.push(this);
      }
      postMessage(request: unknown) {
        if (request === 'rate') [20, 30].forEach((data) => this.onmessage!({ data }));
        if (request === 'break') this.onerror!({ preventDefault() {} });
        else this.onmessage!({ data: [request === 'fail' ? null : request, 'js'] });
      }
      terminate() {
        seen.ended++;
      }
    },
  });
  return { seen, startWorkers: load<Pool>('captcha/engine/pool').startWorkers };
};

// One processor is left to the page, and four workers are enough.
table('workers by processors:', { undefined: 2, 0: 2, 1: 1, 2: 1, 3: 2, 4: 3, 5: 4, 64: 4 }, (want, processors) => {
  const { seen, startWorkers } = stub({ processors: processors === 'undefined' ? undefined : Number(processors) });
  assert.equal(startWorkers('source').length, want);
  assert.deepEqual(seen.started, Array(want).fill('blob:1'));
});

test('a worker that is refused ends those already started', () => {
  const { seen, startWorkers } = stub({ processors: 5, failAt: 2 });
  assert.throws(() => startWorkers('source'), { message: 'refused' });
  assert.equal(seen.started.length, 2);
  assert.equal(seen.ended, 2);
  assert(seen.revoked > 0);
});

table(
  'trusted types:',
  {
    none: [undefined, 'blob:1'],
    'policy allowed': [
      { createPolicy: (name: string) => ({ createScriptURL: (url: string) => `trusted ${url} by ${name}` }) },
      'trusted blob:1 by service-captcha',
    ],
    'policy refused': [
      {
        createPolicy() {
          throw new TypeError('refused');
        },
      },
      'blob:1',
    ],
  } as Record<string, [unknown, string]>,
  ([trustedTypes, want]) => {
    const { seen, startWorkers } = stub({ processors: 2, trustedTypes });
    startWorkers('source');
    assert.deepEqual(seen.started, [want]);
  },
);

test('the policy is created once for all workers', () => {
  let created = 0;
  const createPolicy = () => (created++, { createScriptURL: (url: string) => url });
  stub({ processors: 64, trustedTypes: { createPolicy } }).startWorkers('source');
  assert.equal(created, 1);
});

test('a member returns results, and rejects after an internal error', async () => {
  const [member] = stub({ processors: 2 }).startWorkers('source');
  const { Unsupported } = loadSame<Failures>('captcha/engine/failures');
  assert.equal(await member!.send(7), 7);
  await assert.rejects(member!.send('fail' as never), Unsupported);
  assert.equal(await member!.send(8), 8);
});

test('a member passes rates on, which are no results', async () => {
  const [member] = stub({ processors: 2 }).startWorkers('source');
  const rates: number[] = [];
  assert.equal(await member!.send('rate' as never, (rate) => rates.push(rate)), 'rate');
  assert.deepEqual(rates, [20, 30]);
  assert.equal(await member!.send('rate' as never), 'rate');
});

test('a worker refused before the first request rejects it', async () => {
  const { seen, startWorkers } = stub({ processors: 2 });
  const [member] = startWorkers('source');
  seen.workers[0].onerror({ preventDefault() {} });
  const { Unsupported } = loadSame<Failures>('captcha/engine/failures');
  await assert.rejects(member!.send(1), Unsupported);
});

// The WebAssembly engine that a page may load.
type Fetch = (url: string, options: { credentials: string }) => Promise<unknown>;
const bytes = new ArrayBuffer(4);

table(
  'fetchModule',
  {
    SIMD: [
      WebAssembly,
      async (url) => ({ ok: url === 'http://c.test/captcha.wasm', arrayBuffer: async () => bytes }),
      bytes,
    ],
    'no SIMD': [
      Object.assign(Object.create(WebAssembly), { validate: () => false }),
      async (url) => ({ ok: url === 'http://c.test/captcha-scalar.wasm', arrayBuffer: async () => bytes }),
      bytes,
    ],
    'no WebAssembly': [undefined, async () => assert(false, 'fetched'), undefined],
    'forbidden by the policy': [
      Object.assign(Object.create(WebAssembly), {
        Module: class {
          constructor() {
            throw new Error('refused');
          }
        },
      }),
      async () => assert(false, 'fetched'),
      undefined,
    ],
    missing: [WebAssembly, async () => ({ ok: false }), undefined],
    'network failure': [WebAssembly, () => Promise.reject(new Error('offline')), undefined],
  } as Record<string, [unknown, Fetch, unknown]>,
  async ([webAssembly, fetch, want]) => {
    const real = WebAssembly;
    const requests: string[] = [];
    define({
      WebAssembly: webAssembly,
      fetch: browserFetch((url: string, options: { credentials: string }) => {
        requests.push(options.credentials);
        return fetch(url, options);
      }),
    });
    const { fetchModule } = load<typeof import('../../../src/captcha/engine/module')>('captcha/engine/module');
    assert.equal(await fetchModule('http://c.test'), want);
    define({ WebAssembly: real });
    assert(requests.every((each) => each === 'omit'));
  },
);

test('the committed modules are valid', () => {
  for (const name of ['captcha.wasm', 'captcha-scalar.wasm'] as const)
    assert(WebAssembly.validate(readModule(name)), name);
});
