import assert from 'node:assert/strict';
import { load, table, test } from '../harness';

const { splitWork } = load<typeof import('../../../src/captcha/engine/split')>('captcha/engine/split');

type Member = Parameters<typeof splitWork>[0][number];
type Request = Parameters<Member['send']>[0];

const start = { challenge: { challenge: '', salt: '', difficulty: 1 } };

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
  assert.equal(await splitWork([member], start, (...each) => progress.push(each)), 12345);
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
  assert.equal(await splitWork(members, start, (done) => progress.push(done)), 12345);
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
  assert.equal(await splitWork([never, member], start, () => {}), 12345);
  assert.deepEqual(never.requests, [start]);
});

table(
  'no solution:',
  {
    'a malformed challenge': [[newMember(0)]],
    'a search without a secret': [[newMember(3, (request) => (request === 1 ? -1 : undefined!))]],
    'a search of one of two members': [
      [newMember(4), newMember(4, (request) => (typeof request === 'number' ? -1 : undefined!))],
    ],
  } as Record<string, [Member[]]>,
  async ([members]) => assert.equal(await splitWork(members, start, () => {}), -1),
);

table(
  'a failure rejects',
  {
    'at the start': (request: Request) => (request === start ? Promise.reject(new Error('broken')) : undefined!),
    'in a search': (request: Request) => (request === 2 ? Promise.reject(new Error('broken')) : undefined!),
    'at the end': (request: Request) => (Array.isArray(request) ? Promise.reject(new Error('broken')) : undefined!),
  },
  (answer) =>
    assert.rejects(
      splitWork([newMember(4, answer)], start, () => {}),
      { message: 'broken' },
    ),
);
