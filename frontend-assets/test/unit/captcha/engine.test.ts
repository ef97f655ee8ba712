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
    const finder = await newFinder(endless(), undefined, false);
    assert.equal(await finder.find(0), -1);
    assert.equal(finder.name(), want);
    define({ performance, self: { crypto: webcrypto } });
  },
);

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
  const finder = await newFinder(endless(), readModule('captcha.wasm'), true);
  assert.equal(await finder.find(0), -1);
  port1.close();
  define({ performance });
  assert(turns > 20, `${turns} turns in 160 batches`);
});

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
