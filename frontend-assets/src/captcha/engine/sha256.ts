// SHA-256 (FIPS 180-4). crypto.subtle is missing on pages without TLS and slow on short inputs.

/** The initial state of a hash. */
export const initial = new Int32Array(8);
/** The block to compress: words 0 to 15. The other words are scratch space. */
export const block = new Int32Array(64);

// The constants are the fractional parts of the roots of primes. Computing them takes fewer bytes
// than listing them.
const constants = new Int32Array(64);
for (let prime = 2, found = 0; found < 64; prime++) {
  let divisor = 2;
  while (prime % divisor) divisor++;
  if (divisor < prime) continue;
  if (found < 8) initial[found] = Math.sqrt(prime) * 2 ** 32;
  constants[found++] = Math.cbrt(prime) * 2 ** 32;
}

/** Compresses the block with the state `from`, and writes the next state to `to`. Both may be the same. */
export const compress = (from: Int32Array, to: Int32Array): void => {
  const w = block;
  for (let t = 16; t < 64; t++) {
    const x = w[t - 15]!;
    const y = w[t - 2]!;
    const small0 = ((x >>> 7) | (x << 25)) ^ ((x >>> 18) | (x << 14)) ^ (x >>> 3);
    const small1 = ((y >>> 17) | (y << 15)) ^ ((y >>> 19) | (y << 13)) ^ (y >>> 10);
    w[t] = (small1 + w[t - 7]! + small0 + w[t - 16]!) | 0;
  }
  let a = from[0]!;
  let b = from[1]!;
  let c = from[2]!;
  let d = from[3]!;
  let e = from[4]!;
  let f = from[5]!;
  let g = from[6]!;
  let h = from[7]!;
  let bc = b ^ c;
  for (let t = 0; t < 64; t++) {
    const big1 = ((e >>> 6) | (e << 26)) ^ ((e >>> 11) | (e << 21)) ^ ((e >>> 25) | (e << 7));
    const x = (h + big1 + (g ^ (e & (f ^ g))) + constants[t]! + w[t]!) | 0;
    const big0 = ((a >>> 2) | (a << 30)) ^ ((a >>> 13) | (a << 19)) ^ ((a >>> 22) | (a << 10));
    const ab = a ^ b;
    // b ^ (ab & bc) is the majority of a, b and c; ab is the next round's bc.
    const y = (big0 + (b ^ (ab & bc))) | 0;
    bc = ab;
    h = g;
    g = f;
    f = e;
    e = (d + x) | 0;
    d = c;
    c = b;
    b = a;
    a = (x + y) | 0;
  }
  to[0] = from[0]! + a;
  to[1] = from[1]! + b;
  to[2] = from[2]! + c;
  to[3] = from[3]! + d;
  to[4] = from[4]! + e;
  to[5] = from[5]! + f;
  to[6] = from[6]! + g;
  to[7] = from[7]! + h;
};

/** Hashes bytes, given as the characters of a string, and returns eight words. */
export const sha256 = (bytes: string): Int32Array => {
  const state = initial.slice();
  const padded = bytes + '\x80' + '\0'.repeat(-(bytes.length + 9) & 63) + wordsToBytes([0, bytes.length * 8]);
  for (let at = 0; at < padded.length; at += 4) {
    block[(at / 4) & 15] = wordAt(padded, at);
    if ((at & 63) === 60) compress(state, state);
  }
  return state;
};

/** Returns the big-endian word at a position. Bytes beyond the end count as 0. */
export const wordAt = (bytes: string, at: number): number => {
  let value = 0;
  for (let i = 0; i < 4; i++) value = (value << 8) | bytes.charCodeAt(at + i);
  return value;
};

/** Returns words as big-endian bytes. */
export const wordsToBytes = (words: ArrayLike<number>): string => {
  let bytes = '';
  for (let at = 0; at < words.length * 4; at++)
    bytes += String.fromCharCode((words[at >> 2]! >>> (24 - (at % 4) * 8)) & 255);
  return bytes;
};
