import { sha256, text, word } from './sha256';

/** What {captcha_url}/api/v1/pow/config gives (captcha contract, section 2). */
export interface Challenge {
  challenge: string;
  salt: string;
  /** Expected number of hashes. */
  difficulty: number;
}

/**
 * One of a challenge's searches: find n below `end` so that H(index, n) begins with the target. See
 * dataplane/captcha/pow.
 */
export interface Target {
  index: number;
  end: number;
  /** The hash's first 32 bits, signed. */
  high: number;
  /** Its next 16 bits. */
  low: number;
}

/** A challenge as engines work on it. */
export interface Task {
  seed: Int32Array;
  targets: Target[];
}

// Sizes in bytes.
const bodySize = 48;
const targetSize = 6;
const macSize = 16;

/** Reads a challenge. One that cannot be read has no targets. */
export const read = (challenge: Challenge): Task => {
  const bytes = decode(challenge.challenge);
  const k = bytes.charCodeAt(2);
  const targets: Target[] = [];
  if (word(bytes, 0) >>> 24 === 1 && !bytes.charCodeAt(3) && k <= 16 && bytes.length === bodySize + k * targetSize + macSize) {
    for (let index = 0; index < k; index++) {
      const at = bodySize + index * targetSize;
      targets.push({ index, end: Math.floor((2 * challenge.difficulty) / k), high: word(bytes, at), low: word(bytes, at + 4) >>> 16 });
    }
  }
  return { seed: sha256(bytes.slice(0, bodySize) + challenge.salt), targets };
};

/** The one number that stands for all secrets: 52 bits, which JSON keeps exactly. */
export const fold = (seed: Int32Array, secrets: number[]): number => {
  const words = sha256(text(seed) + text(secrets));
  return (words[0]! >>> 0) * 2 ** 20 + (words[1]! >>> 12);
};

const decode = (base64url: string): string => {
  try {
    return atob(base64url.replace(/-/g, '+').replace(/_/g, '/'));
  } catch {
    return '';
  }
};
