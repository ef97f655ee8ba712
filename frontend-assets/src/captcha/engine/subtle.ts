import type { NewEngine } from './types';

/**
 * Creates the engine for browsers that do not compile JavaScript. It uses the browser's own SHA-256
 * and computes all hashes of a call concurrently.
 */
export const subtle: NewEngine = (task) => {
  const input = new DataView(new ArrayBuffer(40));
  task.seed.forEach((word, i) => input.setInt32(8 + 4 * i, word));
  return async (index, start, end) => {
    const target = task.targets[index]!;
    input.setUint32(0, index);
    const hashes: Promise<ArrayBuffer>[] = [];
    for (let n = start; n < end; n++) {
      input.setUint32(4, n);
      // digest copies the input before it returns.
      hashes.push(crypto.subtle.digest('SHA-256', input));
    }
    const at = (await Promise.all(hashes)).findIndex((hash) => {
      const view = new DataView(hash);
      return view.getInt32(0) === target.high && view.getUint16(4) === target.low;
    });
    return at < 0 ? -1 : start + at;
  };
};
