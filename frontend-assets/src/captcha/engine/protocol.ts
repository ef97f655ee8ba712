import type { Challenge } from './challenge';

// What the widget's script (solver.ts) and the worker's script (serve.ts) send each other. Every
// request gets one answer. Browsers may hold the two scripts from two releases for an hour, so
// changes must be understood by both.

/**
 * The first request: what to work on. Answered with the number of searches, 0 if the challenge
 * cannot be read.
 */
export interface Start {
  challenge: Challenge;
  /** The WebAssembly engine, where it is worth a try. */
  module?: ArrayBuffer | undefined;
}

/**
 * Start; or the number of a search, answered with its secret or -1; or all secrets, answered with
 * the nonce; or stop, unanswered.
 */
export type Request = Start | number | number[] | null;

/** The result, null if something broke, and the name of the engine that is in use. */
export type Answer = [number | null, string];

/** One end of the connection. */
export interface Port {
  postMessage(message: Request | Answer, transfer?: Transferable[]): void;
  onmessage: ((event: MessageEvent) => void) | null;
}

/**
 * Where the worker's script, when a page runs it itself, leaves its function that serves a port:
 * under a symbol, so that the page gets no name it could trip over.
 */
export const server: unique symbol = Symbol.for('service-captcha-server') as never;

declare global {
  interface Window {
    [server]?: (port: Port, yields: boolean) => void;
  }
}
