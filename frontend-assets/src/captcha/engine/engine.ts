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

/**
 * Hashes of the first batch in the page's own thread, because its speed is not known yet. The smallest
 * batch that is measured has as many, and so has each batch of the browser's own SHA-256 in the page.
 */
const firstBatch = 128;
/** Milliseconds of a later batch there, which has at most the hashes of a worker's batch. */
const batchTime = 5;
/** Milliseconds of work after which the page gets its turn. */
const slice = 12;

/** Milliseconds of work after which the rate is reported first, and between later reports. */
const firstReport = 50;
const laterReport = 1000;

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
 * the page run every few milliseconds. `onRate` gets the hashes per millisecond: after 50 ms the rate
 * of the fastest batch, because the browser compiles the engine meanwhile, and every second a moving
 * mean, because other programs disturb a single second.
 */
export const newFinder = async (
  task: Task,
  module: ArrayBuffer | undefined,
  yields: boolean,
  onRate?: (rate: number) => void,
): Promise<Finder> => {
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
  let size = yields ? firstBatch : batch;

  let pause = firstReport;
  let reportedAt = turnAt; // at first the beginning of the work
  let tried = 0; // hashes since then
  let speed = 0; // hashes per millisecond: of the fastest batch until the first report, then a moving mean

  /**
   * Measures a batch. It switches to the browser's own SHA-256 where JavaScript is not compiled, such
   * as in the lockdown mode of iOS, and reports the rate when it is time.
   */
  const measure = (count: number, time: number, ended: number) => {
    tried += count;
    const passed = ended - reportedAt;
    if (pause === firstReport) {
      const isJS = name === 'js';
      if (isJS && tried <= warmupHashes) return;
      // Some browsers have a clock of whole milliseconds.
      if (count >= firstBatch) speed = Math.max(speed, count / (time || 0.1));
      if (isJS && speed < interpretedSpeed) {
        // The rate of an engine that may still be replaced says nothing.
        if (tried < decisiveHashes) return;
        if (self.crypto?.subtle) {
          name = 'subtle';
          engine = subtle(task);
          speed = 0;
          return;
        }
      }
    }

    if (passed < pause) return;
    if (pause !== firstReport) speed = (2 * speed + tried / passed) / 3;
    if (onRate) onRate(speed);
    pause = laterReport;
    reportedAt = ended;
    tried = 0;
  };

  return {
    name: () => name,
    async find(index) {
      const end = task.targets[index]!.end;
      for (let start = 0; start < end && !stopped;) {
        const until = Math.min(start + size, end);
        const began = performance.now();
        let n = engine(index, start, until);
        if (typeof n !== 'number') n = await n;
        if (n >= 0) return n;
        const ended = performance.now();
        const count = until - start;
        const time = ended - began;
        measure(count, time, ended);
        start = until;
        if (!yields) continue;
        size = name === 'subtle' ? firstBatch : Math.min(Math.ceil((count * batchTime) / time), 2 * size, batch);
        // The next batch is expected to take the time of this one.
        if (ended - turnAt + time > slice) {
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
