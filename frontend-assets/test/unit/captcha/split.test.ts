import assert from 'node:assert/strict';
import { load, table, test } from '../harness';

const { splitWork } = load<typeof import('../../../src/captcha/engine/split')>('captcha/engine/split');

type Member = Parameters<typeof splitWork>[0][number];
type Request = Parameters<Member['send']>[0];

const start = { challenge: { challenge: '', salt: '', difficulty: 1000 } };
const ignore = () => {};

/** Creates a member that solves `total` searches, and notes its requests. */
const newMember = (
  total: number,
  answer?: (request: Request) => number | Promise<number>,
): Member & { requests: Request[] } => {
  const requests: Request[] = [];
  return {
    requests,
    async send(request) {
      requests.push(request);
      const own = answer?.(request);
      if (own !== undefined) return own;
      if (typeof request === 'number') return request * 10;
      return Array.isArray(request) ? 12345 : total;
    },
    end() {},
  };
};

test('one member does all searches, in order, and folds the secrets', async () => {
  const member = newMember(3);
  const progress: number[][] = [];
  assert.equal(await splitWork([member], start, (...each) => progress.push(each), ignore), 12345);
  assert.deepEqual(member.requests, [start, 0, 1, 2, [0, 10, 20]]);
  assert.deepEqual(progress, [
    [0, 3],
    [1, 3],
    [2, 3],
    [3, 3],
  ]);
});

test('several members do each search once', async () => {
  const members = [newMember(16), newMember(16), newMember(16)];
  const progress: number[] = [];
  assert.equal(await splitWork(members, start, (done) => progress.push(done), ignore), 12345);
  const searches = members.flatMap((each) => each.requests).filter((each) => typeof each === 'number') as number[];
  assert.deepEqual(
    searches.sort((a, b) => a - b),
    [...Array(16).keys()],
  );
  assert(
    members.every((each) => each.requests.length > 2),
    'every member takes a share',
  );
  assert.deepEqual(
    progress.filter(Boolean),
    Array.from({ length: 16 }, (_, i) => i + 1),
  );
  const folded = members.flatMap((each) => each.requests).filter(Array.isArray);
  assert.deepEqual(folded, [Array.from({ length: 16 }, (_, i) => i * 10)]);
});

test('a member that never starts delays no other', async () => {
  const never = newMember(4, () => new Promise<number>(() => {}));
  const member = newMember(4);
  assert.equal(await splitWork([never, member], start, ignore, ignore), 12345);
  assert.deepEqual(never.requests, [start]);
});

/** Creates a member that reports its rates, one a search, before each answer. */
const newMeasured = (total: number, rates: number[]): Member => ({
  async send(request, onRate) {
    if (typeof request !== 'number') return Array.isArray(request) ? 1 : total;
    const rate = rates.shift();
    if (rate) onRate!(rate);
    return 0;
  },
  end() {},
});

// The work has 1,000 hashes.
table(
  'the expected wait:',
  {
    'no rate': [[newMeasured(4, [])], []],
    'at each rate and each search': [[newMeasured(4, [10])], [100, 75, 50, 25, 0]],
    'at a new rate': [[newMeasured(4, [10, 0, 5])], [100, 75, 50, 100, 50, 0]],
    'two members, and one has not measured yet': [
      [newMeasured(4, [10]), newMeasured(4, [])],
      [50, 37.5, 25, 12.5, 0],
    ],
    'two members': [
      [newMeasured(2, [10]), newMeasured(2, [30])],
      [50, 25, 12.5, 0],
    ],
    'a clock that is too coarse': [[newMeasured(2, [Infinity])], [0, 0, 0]],
  } as Record<string, [Member[], number[]]>,
  async ([members, want]) => {
    const got: number[] = [];
    assert.equal(await splitWork(members, start, ignore, (wait) => got.push(wait)), 1);
    assert.deepEqual(got, want);
  },
);

table(
  'no solution:',
  {
    'a malformed challenge': [[newMember(0)]],
    'a search without a secret': [[newMember(3, (request) => (request === 1 ? -1 : undefined!))]],
    'a search of one of two members': [
      [newMember(4), newMember(4, (request) => (typeof request === 'number' ? -1 : undefined!))],
    ],
  } as Record<string, [Member[]]>,
  async ([members]) => assert.equal(await splitWork(members, start, ignore, ignore), -1),
);

table(
  'a failure rejects',
  {
    'at the start': (request: Request) => (request === start ? Promise.reject(new Error('broken')) : undefined!),
    'in a search': (request: Request) => (request === 2 ? Promise.reject(new Error('broken')) : undefined!),
    'at the end': (request: Request) => (Array.isArray(request) ? Promise.reject(new Error('broken')) : undefined!),
  },
  (answer) => assert.rejects(splitWork([newMember(4, answer)], start, ignore, ignore), { message: 'broken' }),
);
