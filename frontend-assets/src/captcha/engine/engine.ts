import type { Task } from './challenge';
import { js } from './js';
import { subtle } from './subtle';
import type { EngineName } from './types';
import { wasm } from './wasm';

/** Hashes before the speed of JavaScript is measured, so that the browser can compile it first. */
const warmupHashes = 4096;
/** Hashes after which the measured speed decides. */
const decisiveHashes = 16_384;
/**
 * Below this speed, in hashes per millisecond, JavaScript is not compiled. Compiled it is at least
 * twenty times as fast.
 */
const interpretedSpeed = 100;

/**
 * Hashes per call of the engine. The batch is small for two reasons: browsers replace slow code with
 * compiled code only between calls, and the fastest of many short runs shows the speed of
 * JavaScript even on a busy computer.
 */
const batch = 512;
/** The same in the page's own thread: one to three milliseconds of slow JavaScript. */
const slicedBatch = 128;
/** Milliseconds of work before the page gets its turn. */
const slice = 4;

/** Finds the secrets of a task. */
export interface Finder {
  /** Returns the name of the engine in use. */
  name(): EngineName;
  /**
   * Finds one secret. Returns -1 if no number matches, or if the finder yields and was stopped.
   */
  find(index: number): Promise<number>;
  stop(): void;
}

/**
 * Creates a finder with the fastest engine that works here. With `yields` it lets other tasks of
 * the page run every few milliseconds.
 */
export const newFinder = async (task: Task, module: ArrayBuffer | undefined, yields: boolean): Promise<Finder> => {
  let name: EngineName = 'js';
  let engine = js(task);
  if (module) {
    try {
      engine = await wasm(task, module);
      name = 'wasm';
    } catch {
      // The page's Content-Security-Policy may forbid WebAssembly. JavaScript works too.
    }
  }

  let stopped = false;
  let turnAt = performance.now();
  let hashes = 0;
  let best = 0; // hashes per millisecond
  /**
   * Switches to the browser's own SHA-256 where JavaScript is not compiled, such as in the lockdown
   * mode of iOS.
   */
  const measure = (count: number, time: number) => {
    if (name !== 'js') return;
    hashes += count;
    if (hashes > warmupHashes) best = Math.max(best, count / time);
    if (hashes >= decisiveHashes && best < interpretedSpeed && self.crypto?.subtle) {
      name = 'subtle';
      engine = subtle(task);
    }
  };

  return {
    name: () => name,
    async find(index) {
      const end = task.targets[index]!.end;
      for (let start = 0; start < end && !stopped;) {
        const until = Math.min(start + (yields ? slicedBatch : batch), end);
        const began = performance.now();
        let n = engine(index, start, until);
        if (typeof n !== 'number') n = await n;
        if (n >= 0) return n;
        const ended = performance.now();
        measure(until - start, ended - began);
        start = until;
        if (yields && ended - turnAt > slice) {
          await yieldToPage();
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
 * Lets the page's other tasks run. A message is used because browsers throttle timers, above all in
 * hidden tabs.
 */
const yieldToPage = (): Promise<void> =>
  new Promise((resolve) => {
    const channel = new MessageChannel();
    channel.port1.onmessage = () => {
      channel.port1.close();
      resolve();
    };
    channel.port2.postMessage(0);
  });
