import type { Task } from './challenge';
import type { Engine } from './engine';

/** What wasm/pow.c exports. */
interface Exports {
  memory: WebAssembly.Memory;
  /** Address of the seed's eight words. */
  seed(): number;
  /** Returns n, or -1. */
  search(index: number, start: number, end: number, high: number, low: number): number;
}

/** The engine in WebAssembly. It rejects where WebAssembly or this module may not or cannot run. */
export const wasm = async (task: Task, module: ArrayBuffer): Promise<Engine> => {
  const exports = (await WebAssembly.instantiate(module)).instance.exports as unknown as Exports;
  new Int32Array(exports.memory.buffer, exports.seed(), 8).set(task.seed);
  return (index, start, end) => {
    const target = task.targets[index]!;
    return exports.search(index, start, end, target.high, target.low);
  };
};
