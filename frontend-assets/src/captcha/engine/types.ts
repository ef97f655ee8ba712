import type { Task } from './challenge';

/**
 * Tries the numbers from start up to, not including, end in one of the task's searches. Returns the
 * number that matches, or -1.
 */
export type Engine = (index: number, start: number, end: number) => number | Promise<number>;

/** Creates an engine for a task. */
export type NewEngine = (task: Task) => Engine;

/** The engines by name, in the order in which they are tried. */
export type EngineName = 'wasm' | 'js' | 'subtle';
