import type { Task } from './challenge';
import { js } from './js';
import { subtle } from './subtle';
import { wasm } from './wasm';

/**
 * Tries the numbers from start up to, not including, end in one of the searches. Gives the number
 * that fits, or -1.
 */
export type Engine = (index: number, start: number, end: number) => number | Promise<number>;

/** The engines by name, in the order in which they are tried. */
export type Name = 'wasm' | 'js' | 'subtle';

// When JavaScript is judged, in hashes: first the browser may compile it.
const warm = 4096;
const judged = 16_384;
/**
 * Below a tenth of a million hashes a second it is not compiled. In hashes per millisecond;
 * compiled it does twenty times as much.
 */
const slow = 100;

/**
 * How many hashes are tried at once. Short, as browsers exchange slow code for fast between calls,
 * and since the fastest of many short runs says what JavaScript is worth, also on a computer that
 * is busy with other things.
 */
const batch = 512;
/** The same where the page waits: a millisecond or three of slow JavaScript. */
const slicedBatch = 128;
/** Milliseconds until a page gets its turn. */
const slice = 4;

/** Finds the secrets of a task. */
export interface Finder {
  /** The engine in use. */
  name(): Name;
  /**
   * Finds one secret. Gives -1 when there is none, and soon after `stop` was called where the
   * finder yields.
   */
  find(index: number): Promise<number>;
  stop(): void;
}

/**
 * Makes a finder with the fastest engine that works here. One that yields leaves the page time to
 * breathe.
 */
export const finder = async (task: Task, module: ArrayBuffer | undefined, yields: boolean): Promise<Finder> => {
  let name: Name = 'js';
  let engine = js(task);
  if (module) {
    try {
      engine = await wasm(task, module);
      name = 'wasm';
    } catch {
      // The page's Content-Security-Policy may forbid WebAssembly; JavaScript does as well.
    }
  }

  let stopped = false;
  let turnAt = performance.now();
  let hashes = 0;
  let best = 0; // hashes per millisecond
  /**
   * Turns to the browser's own SHA-256 where JavaScript is not compiled, such as in the lockdown
   * mode of iOS.
   */
  const judge = (count: number, time: number) => {
    if (name !== 'js') return;
    hashes += count;
    if (hashes > warm) best = Math.max(best, count / time);
    if (hashes >= judged && best < slow && self.crypto?.subtle) {
      name = 'subtle';
      engine = subtle(task);
    }
  };

  return {
    name: () => name,
    async find(index) {
      const end = task.targets[index]!.end;
      for (let start = 0; start < end && !stopped; ) {
        const until = Math.min(start + (yields ? slicedBatch : batch), end);
        const began = performance.now();
        let n = engine(index, start, until);
        if (typeof n !== 'number') n = await n;
        if (n >= 0) return n;
        const ended = performance.now();
        judge(until - start, ended - began);
        start = until;
        if (yields && ended - turnAt > slice) {
          await turn();
          turnAt = performance.now();
        }
      }
      return -1;
    },
    stop() {
      stopped = true;
    },
  };
};

/**
 * Lets everything else in the page have its turn. A timer would be held up, most of all in a hidden
 * tab.
 */
const turn = (): Promise<void> =>
  new Promise((resolve) => {
    const channel = new MessageChannel();
    channel.port1.onmessage = () => {
      channel.port1.close();
      resolve();
    };
    channel.port2.postMessage(0);
  });
