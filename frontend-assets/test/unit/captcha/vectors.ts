// The challenges that the Go implementation and the browser tests use as well.
import { readFileSync } from 'node:fs';

export interface Vector {
  name: string;
  challenge: string;
  salt: string;
  difficulty: number;
  secrets: number[];
  nonce: number;
}

/** Challenges with a solution, and challenges without one. Paths are relative to frontend-assets. */
export const { solve: solvable, unsolvable } = JSON.parse(
  readFileSync('../dataplane/captcha/pow/testdata/vectors.json', 'utf8'),
) as { solve: Vector[]; unsolvable: Vector[] };

/** Returns the vector of a name. */
export const vector = (name: string): Vector => {
  const found = solvable.find((each) => each.name === name);
  if (!found) throw new Error(`no vector is called "${name}"`);
  return found;
};

/** Returns the vectors by name, as rows of a table. */
export const byName = (vectors: Vector[]): Record<string, Vector> =>
  Object.fromEntries(vectors.map((each) => [each.name, each]));

/** Reads a WebAssembly engine. */
export const readModule = (name: 'captcha.wasm' | 'captcha-scalar.wasm'): ArrayBuffer => {
  const bytes = readFileSync('src/captcha/engine/wasm/' + name);
  return bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength) as ArrayBuffer;
};
