import { sha256, wordAt, wordsToBytes } from './sha256';

/** The response of {captcha_url}/api/v1/pow/config (captcha contract, section 2). */
export interface Challenge {
  challenge: string;
  salt: string;
  /** Expected number of hashes. */
  difficulty: number;
}

/**
 * One of a challenge's searches: find n below `end` such that H(index, n) begins with the target.
 * dataplane/captcha/pow describes the work function.
 */
export interface Target {
  index: number;
  end: number;
  /** First 32 bits of the hash, signed. */
  high: number;
  /** The next 16 bits. */
  low: number;
}

/** A decoded challenge, as the engines use it. */
export interface Task {
  seed: Int32Array;
  targets: Target[];
}

// Sizes in bytes.
const bodySize = 48;
const targetSize = 6;
const macSize = 16;

/** Decodes a challenge. The task of a malformed challenge has no targets. */
export const readChallenge = (challenge: Challenge): Task => {
  const bytes = decode(challenge.challenge);
  const k = bytes.charCodeAt(2);
  const targets: Target[] = [];
  if (
    wordAt(bytes, 0) >>> 24 === 1 &&
    !bytes.charCodeAt(3) &&
    k <= 16 &&
    bytes.length === bodySize + k * targetSize + macSize
  ) {
    for (let index = 0; index < k; index++) {
      const at = bodySize + index * targetSize;
      targets.push({
        index,
        end: Math.floor((2 * challenge.difficulty) / k),
        high: wordAt(bytes, at),
        low: wordAt(bytes, at + 4) >>> 16,
      });
    }
  }
  return { seed: sha256(bytes.slice(0, bodySize) + challenge.salt), targets };
};

/** Folds all secrets into the nonce: a number of 52 bits, which JSON represents exactly. */
export const foldSecrets = (seed: Int32Array, secrets: number[]): number => {
  const words = sha256(wordsToBytes(seed) + wordsToBytes(secrets));
  return (words[0]! >>> 0) * 2 ** 20 + (words[1]! >>> 12);
};

const decode = (base64url: string): string => {
  try {
    return atob(base64url.replace(/-/g, '+').replace(/_/g, '/'));
  } catch {
    return '';
  }
};
