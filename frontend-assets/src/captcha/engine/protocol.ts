import type { Challenge } from './challenge';

// The messages between the widget's script (solver.ts) and the worker's script (serve.ts). Every
// request but stop gets one answer. For up to an hour browsers may combine scripts of two releases,
// so both must understand any change.

/**
 * The first request, with the work to do. The answer is the number of searches, or 0 if the
 * challenge is malformed.
 */
export interface Start {
  challenge: Challenge;
  /** The WebAssembly engine, if it may work. */
  module?: ArrayBuffer | undefined;
  /** Whether the widget understands rates. Older widgets would take a rate for an answer. */
  rates?: true;
}

/**
 * Start; the index of a search, answered with its secret or -1; all secrets, answered with the
 * nonce; or null to stop, which has no answer.
 */
export type Request = Start | number | number[] | null;

/** The result, or null after an internal error, and the name of the engine in use. */
export type Answer = [number | null, string];

/** Hashes per millisecond, which the worker measures and sends during a search. */
export type Rate = number;

/** One end of the connection. */
export interface Port {
  postMessage(message: Request | Answer | Rate, transfer?: Transferable[]): void;
  onmessage: ((event: MessageEvent) => void) | null;
}

/**
 * The window's property under which the worker's script, when loaded into a page, stores its serve
 * function. It is a symbol, so it cannot collide with a name of the page.
 */
export const serverKey: unique symbol = Symbol.for('service-captcha-server') as never;

declare global {
  interface Window {
    [serverKey]?: (port: Port, yields: boolean) => void;
  }
}
