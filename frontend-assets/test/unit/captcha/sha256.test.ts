import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { load, table, test } from '../harness';

const { sha256, wordAt, wordsToBytes } =
  load<typeof import('../../../src/captcha/engine/sha256')>('captcha/engine/sha256');

const hex = (words: Int32Array): string =>
  Array.from(words, (word) => (word >>> 0).toString(16).padStart(8, '0')).join('');

// The examples of FIPS 180-4.
table(
  'sha256',
  {
    empty: ['', 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'],
    abc: ['abc', 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad'],
    'two blocks': [
      'abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq',
      '248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1',
    ],
  } as Record<string, [string, string]>,
  ([bytes, want]) => assert.equal(hex(sha256(bytes)), want),
);

test('sha256 of every length up to three blocks', () => {
  for (let length = 0; length <= 192; length++) {
    const bytes = Uint8Array.from({ length }, (_, i) => (i * 37 + length) & 255);
    assert.equal(
      hex(sha256(String.fromCharCode(...bytes))),
      createHash('sha256').update(bytes).digest('hex'),
      `length ${length}`,
    );
  }
});

table(
  'wordAt',
  {
    'big-endian': ['\x01\x02\x03\x04', 0, 0x01020304],
    signed: ['\xff\xff\xff\xfe', 0, -2],
    'at an offset': ['\0\0\x01\x02\x03\x04', 2, 0x01020304],
    'beyond the end': ['\x01', 0, 0x01000000],
  } as Record<string, [string, number, number]>,
  ([bytes, at, want]) => assert.equal(wordAt(bytes, at), want),
);

test('wordsToBytes is the inverse of wordAt', () => {
  for (const word of [0, 1, -1, 0x01020304, -0x80000000]) assert.equal(wordAt(wordsToBytes([0, word]), 4), word);
});
