import type { Task } from './challenge';
import type { Engine } from './engine';

/**
 * The engine for browsers that do not compile JavaScript: the browser's own SHA-256, as many hashes
 * at once as given.
 */
export const subtle = (task: Task): Engine => {
  const input = new DataView(new ArrayBuffer(40));
  task.seed.forEach((word, i) => input.setInt32(8 + 4 * i, word));
  return async (index, start, end) => {
    const target = task.targets[index]!;
    input.setUint32(0, index);
    const hashes: Promise<ArrayBuffer>[] = [];
    for (let n = start; n < end; n++) {
      input.setUint32(4, n);
      hashes.push(crypto.subtle.digest('SHA-256', input)); // copies the input before it returns
    }
    const at = (await Promise.all(hashes)).findIndex((hash) => {
      const view = new DataView(hash);
      return view.getInt32(0) === target.high && view.getUint16(4) === target.low;
    });
    return at < 0 ? -1 : start + at;
  };
};
