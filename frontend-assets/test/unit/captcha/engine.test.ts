import assert from 'node:assert/strict';
import { webcrypto } from 'node:crypto';
import { define, load, loadSame, table, test } from '../harness';
import { byName, readModule, solvable, unsolvable, vector } from './vectors';

define({ crypto: webcrypto, self: { crypto: webcrypto } });

const { newFinder } = load<typeof import('../../../src/captcha/engine/engine')>('captcha/engine/engine');
const { readChallenge } = loadSame<typeof import('../../../src/captcha/engine/challenge')>('captcha/engine/challenge');
const { js } = loadSame<typeof import('../../../src/captcha/engine/js')>('captcha/engine/js');
const { subtle } = loadSame<typeof import('../../../src/captcha/engine/subtle')>('captcha/engine/subtle');
const { wasm } = loadSame<typeof import('../../../src/captcha/engine/wasm')>('captcha/engine/wasm');

type Task = ReturnType<typeof readChallenge>;
type Engine = ReturnType<typeof js>;

const engines: Record<string, (task: Task) => Engine | Promise<Engine>> = {
  simd: (task) => wasm(task, readModule('captcha.wasm')),
  scalar: (task) => wasm(task, readModule('captcha-scalar.wasm')),
  js,
  subtle,
};

for (const [name, newEngine] of Object.entries(engines)) {
  // The browser's SHA-256 is asynchronous and slow here, so it solves the small challenges only.
  const all = solvable.filter((each) => name !== 'subtle' || each.difficulty <= 4096);
  table(name + ' solves', byName(all), async (given) => {
    const task = readChallenge(given);
    const engine = await newEngine(task);
    for (const { index, end } of task.targets) assert.equal(await engine(index, 0, end), given.secrets[index]);
  });

  test(name + ' searches from start up to, not including, end', async () => {
    const given = vector('first and last numbers');
    const task = readChallenge(given);
    const engine = await newEngine(task);
    for (const index of [0, 1, 6]) {
      const secret = given.secrets[index]!;
      for (let start = Math.max(secret - 6, 0); start <= secret + 2; start++) {
        for (let end = start; end <= secret + 6; end++) {
          const want = start <= secret && secret < end ? secret : -1;
          assert.equal(await engine(index, start, end), want, `search ${index} from ${start} to ${end}`);
        }
      }
    }
  });
}

table(
  'newFinder chooses',
  {
    'WebAssembly, if there is a module': [() => readModule('captcha.wasm'), 'wasm'],
    'JavaScript without a module': [() => undefined, 'js'],
    'JavaScript if the module is broken': [() => new ArrayBuffer(8), 'js'],
  } as Record<string, [() => ArrayBuffer | undefined, string]>,
  async ([module, want]) => {
    const given = vector('difficulty 16,384');
    const finder = await newFinder(readChallenge(given), module(), false);
    assert.equal(finder.name(), want);
    assert.equal(await finder.find(3), given.secrets[3]);
  },
);

test('newFinder falls back to JavaScript if the page forbids WebAssembly', async () => {
  const real = WebAssembly;
  define({ WebAssembly: { instantiate: () => Promise.reject(new Error('refused by the policy')) } });
  const finder = await newFinder(readChallenge(vector('difficulty 16,384')), readModule('captcha.wasm'), false);
  define({ WebAssembly: real });
  assert.equal(finder.name(), 'js');
});

/** Lets each reading of the clock be the given number of milliseconds after the previous one. */
const tickBy = (milliseconds: number): void => {
  let now = 0;
  define({ performance: { now: () => (now += milliseconds) } });
};

// A task without a solution, so that a search goes through all its numbers.
const endless = (): Task => {
  const task = readChallenge(vector('difficulty 131,072'));
  task.targets[0] = { ...task.targets[0]!, end: 20_480, high: 0, low: 0 };
  return task;
};

// A batch has 512 hashes, and JavaScript is interpreted below 100 hashes per millisecond.
table(
  'JavaScript is measured:',
  {
    'interpreted, with WebCrypto': [6, { crypto: webcrypto }, 'subtle'],
    'interpreted, without WebCrypto': [6, { crypto: {} }, 'js'],
    'interpreted, without crypto': [6, {}, 'js'],
    compiled: [5, { crypto: webcrypto }, 'js'],
  } as Record<string, [number, object, string]>,
  async ([milliseconds, self, want]) => {
    const { performance } = globalThis;
    tickBy(milliseconds);
    define({ self });
    // An engine that is replaced reports no rate.
    const measured: string[] = [];
    const finder = await newFinder(endless(), undefined, false, () => measured.push(finder.name()));
    assert.equal(await finder.find(0), -1);
    assert.equal(finder.name(), want);
    assert(measured.length > 0 && measured.every((each) => each === want), `rates of ${measured}`);
    define({ performance, self: { crypto: webcrypto } });
  },
);

test('JavaScript is not measured by the last batch of a search, which may be too short for the clock', async () => {
  const { performance } = globalThis;
  let now = 0;
  let readings = -1;
  define({
    self: { crypto: webcrypto },
    // Each of six batches reads the clock twice. The last batch, of one hash, takes no time.
    performance: { now: () => (now += ++readings && readings % 12 === 0 ? 0 : 6) },
  });
  const task = endless();
  task.targets[0]!.end = 5 * 512 + 1;
  const finder = await newFinder(task, undefined, false);
  for (let i = 0; i < 7; i++) assert.equal(await finder.find(0), -1);
  assert.equal(finder.name(), 'subtle');
  define({ performance });
});

test('JavaScript that is compiled late stays: its fastest batch counts', async () => {
  const { performance } = globalThis;
  let readings = 0;
  let now = 0;
  // Each batch reads the clock twice. The 21st batch, after the warm-up, is fast.
  define({ performance: { now: () => (now += ++readings === 43 ? 1 : 10) } });
  const finder = await newFinder(endless(), undefined, false);
  await finder.find(0);
  assert.equal(finder.name(), 'js');
  define({ performance });
});

test('a finder that yields lets other tasks run', async () => {
  const { performance } = globalThis;
  tickBy(5);
  let turns = 0;
  const { port1, port2 } = new MessageChannel();
  port1.onmessage = () => {
    turns++;
    port2.postMessage(0);
  };
  port2.postMessage(0);
  const task = endless();
  task.targets[0]!.end = 200;
  const finder = await newFinder(task, readModule('captcha.wasm'), true);
  assert.equal(await finder.find(0), -1);
  port1.close();
  define({ performance });
  assert(turns > 20, `${turns} turns in 200 hashes of a slow computer`);
});

/** Runs a function with an engine and a clock that advances by the engine's work alone. */
const withEngine = async (
  rate: (now: number) => number,
  run: (newOne: typeof newFinder, now: () => number) => Promise<void>,
): Promise<void> => {
  const { performance, WebAssembly } = globalThis;
  let now = 1000;
  const exports = {
    memory: { buffer: new ArrayBuffer(32) },
    seed: () => 0,
    search(_: number, start: number, end: number) {
      now += (end - start) / rate(now - 1000);
      return -1;
    },
  };
  define({ performance: { now: () => now }, WebAssembly: { instantiate: async () => ({ instance: { exports } }) } });
  try {
    await run(newFinder, () => now);
  } finally {
    define({ performance, WebAssembly });
  }
};

/** A task of one search without a solution. */
const searchOf = (end: number): Task => ({ seed: new Int32Array(8), targets: [{ index: 0, end, high: 0, low: 0 }] });

// Hashes per millisecond, at a time in milliseconds. Slices are about twelve milliseconds long. A
// task of fifty milliseconds would delay the visitor's typing.
table(
  'slices in the page:',
  {
    'a new computer': [() => 7000, 13],
    'a new phone': [() => 1000, 13],
    'an old phone': [() => 20, 13],
    'an old phone without a JIT': [() => 3, 13],
    'a phone that gets six times as slow': [(now) => (now < 200 ? 120 : 20), 35],
    'a phone that gets compiled code': [(now) => (now < 200 ? 5 : 1000), 13],
  } as Record<string, [(now: number) => number, number]>,
  ([rate, most]) =>
    withEngine(rate, async (newOne, now) => {
      const { MessageChannel } = globalThis;
      const slices: number[] = [];
      let turnAt = now();
      define({
        MessageChannel: class {
          port1 = { onmessage() {}, close() {} };
          port2 = {
            postMessage: () => {
              slices.push(now() - turnAt);
              turnAt = now();
              queueMicrotask(() => this.port1.onmessage());
            },
          };
        },
      });
      try {
        // A second of work at the first rate.
        const finder = await newOne(searchOf(rate(0) * 1000), new ArrayBuffer(8), true);
        assert.equal(await finder.find(0), -1);
      } finally {
        define({ MessageChannel });
      }
      assert(slices.length > 15, `${slices.length} slices`);
      // The rate is not known in the first slice.
      assert(slices.shift()! < 50);
      assert(Math.max(...slices) <= most, `slices of ${slices}`);
      // Short slices would waste time on turns.
      assert(Math.min(...slices) >= 8, `slices of ${slices}`);
    }),
);

// Each rate with the milliseconds after which it is reported.
table(
  'rates:',
  {
    constant: [() => 100, 3000, ['100 after 51', '100 after 1055', '100 after 2058']],
    'compiled after 20 ms: the fastest batch counts at first': [
      (now) => (now < 20 ? 20 : 200),
      2000,
      ['200 after 51', '200 after 1052'],
    ],
    'three times as slow after 60 ms: the mean follows': [
      (now) => (now < 60 ? 300 : 100),
      4200,
      ['300 after 51', '234 after 1055', '189 after 2058', '160 after 3062', '140 after 4065'],
    ],
    'done before': [() => 100, 45, []],
  } as Record<string, [(now: number) => number, number, string[]]>,
  ([rate, milliseconds, want]) =>
    withEngine(rate, async (newOne, now) => {
      const got: string[] = [];
      const finder = await newOne(searchOf(1e9), new ArrayBuffer(8), false, (each) => {
        got.push(`${Math.round(each)} after ${Math.round(now() - 1000)}`);
      });
      // The finder is stopped by its clock.
      const { performance } = globalThis;
      define({
        performance: {
          now: () => {
            if (performance.now() - 1000 > milliseconds) finder.stop();
            return performance.now();
          },
        },
      });
      assert.equal(await finder.find(0), -1);
      assert.deepEqual(got, want);
    }),
);

test('a stopped finder finds nothing more', async () => {
  const { performance } = globalThis;
  tickBy(5);
  const given = vector('difficulty 131,072');
  const finder = await newFinder(readChallenge(given), readModule('captcha.wasm'), true);
  const last = given.secrets.indexOf(Math.max(...given.secrets));
  const found = finder.find(last);
  finder.stop();
  assert.equal(await found, -1);
  assert.equal(await finder.find(0), -1);
  define({ performance });
});

test('unsolvable challenges have a search without a result', async () => {
  for (const each of unsolvable) {
    const task = readChallenge(each);
    const finder = await newFinder(task, readModule('captcha.wasm'), false);
    const found = [];
    for (const { index } of task.targets) found.push(await finder.find(index));
    assert(!found.length || found.includes(-1), each.name);
  }
});
