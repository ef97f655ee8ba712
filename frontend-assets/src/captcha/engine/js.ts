import { block, compress, initial } from './sha256';
import type { NewEngine } from './types';

/** Creates the engine in JavaScript, which runs everywhere. */
export const js: NewEngine = (task) => {
  const state = new Int32Array(8);
  return (index, start, end) => {
    const high = task.targets[index]!.high;
    const low = task.targets[index]!.low;
    block.fill(0);
    block.set(task.seed, 2);
    block[0] = index;
    block[10] = 1 << 31;
    block[15] = 320;
    // Calling a function for each hash is faster than one large loop, which the browser would have
    // to optimise while it runs.
    for (let n = start; n < end; n++) {
      block[1] = n;
      compress(initial, state);
      if (state[0] === high && state[1]! >>> 16 === low) return n;
    }
    return -1;
  };
};
