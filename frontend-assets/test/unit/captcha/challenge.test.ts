import assert from 'node:assert/strict';
import { load, table, test } from '../harness';
import { byName, solvable, unsolvable, vector } from './vectors';

const { readChallenge, foldSecrets } =
  load<typeof import('../../../src/captcha/engine/challenge')>('captcha/engine/challenge');

table('foldSecrets', byName(solvable), ({ secrets, nonce, ...challenge }) => {
  const task = readChallenge(challenge);
  assert.equal(task.targets.length, secrets.length);
  assert.equal(foldSecrets(task.seed, secrets), nonce);
  assert(Number.isSafeInteger(nonce));
});

test('the searches of a challenge share its difficulty', () => {
  const given = vector('difficulty 16,384');
  const { targets } = readChallenge(given);
  assert.deepEqual(
    targets.map((each) => each.index),
    [...Array(16).keys()],
  );
  for (const { end } of targets) assert.equal(end, (2 * given.difficulty) / 16);
});

test('each secret lies below the end of its search', () => {
  for (const each of solvable) {
    const { targets } = readChallenge(each);
    each.secrets.forEach((secret, i) => assert(secret < targets[i]!.end, each.name));
  }
});

const good = vector('difficulty 16,384');
const bytes = atob(good.challenge.replace(/-/g, '+').replace(/_/g, '/'));
const encode = (text: string): string => btoa(text).replace(/\+/g, '-').replace(/\//g, '_').replace(/=/g, '');
const replaceAt = (at: number, character: string): string =>
  encode(bytes.slice(0, at) + character + bytes.slice(at + 1));

table(
  'malformed challenges have no targets',
  {
    empty: '',
    'not base64url': '!',
    truncated: good.challenge.slice(0, -4),
    'too long': encode(bytes + '\0'),
    'another version': replaceAt(0, '\x02'),
    'too many searches': replaceAt(2, '\x11'),
    'fewer searches than targets': replaceAt(2, '\x0f'),
    'reserved byte': replaceAt(3, '\x01'),
  },
  (challenge) => assert.equal(readChallenge({ ...good, challenge }).targets.length, 0),
);

test('the test encodes a challenge as the server does', () => assert.equal(encode(bytes), good.challenge));

test('unsolvable challenges are read without an error', () => {
  for (const each of unsolvable) assert(readChallenge(each).targets.length <= 16, each.name);
});
