import type { Task } from './challenge';
import type { Engine } from './types';

/** The exports of wasm/pow.c. */
interface Exports {
  memory: WebAssembly.Memory;
  /** Returns the address of the seed's eight words. */
  seed(): number;
  /** Returns n, or -1. */
  search(index: number, start: number, end: number, high: number, low: number): number;
}

/** Creates the engine in WebAssembly. It rejects if the page must not or cannot run the module. */
export const wasm = async (task: Task, module: ArrayBuffer): Promise<Engine> => {
  const exports = (await WebAssembly.instantiate(module)).instance.exports as unknown as Exports;
  new Int32Array(exports.memory.buffer, exports.seed(), 8).set(task.seed);
  return (index, start, end) => {
    const target = task.targets[index]!;
    return exports.search(index, start, end, target.high, target.low);
  };
};
