// The parts of Node's API that the unit tests use. The project has no npm packages, so no types
// either.

declare module 'node:test' {
  export function test(name: string, run: () => void | Promise<void>): void;
}

declare module 'node:assert/strict' {
  const assert: {
    (value: unknown, message?: string): void;
    ok(value: unknown, message?: string): void;
    equal(actual: unknown, expected: unknown, message?: string): void;
    notEqual(actual: unknown, expected: unknown, message?: string): void;
    deepEqual(actual: unknown, expected: unknown, message?: string): void;
    match(actual: string, expected: RegExp, message?: string): void;
    doesNotMatch(actual: string, expected: RegExp, message?: string): void;
    throws(run: () => unknown, expected?: object): void;
    rejects(run: Promise<unknown>, expected?: object): Promise<void>;
  };
  export default assert;
}

declare module 'node:crypto' {
  export const webcrypto: Crypto;
  export function createHash(name: 'sha256'): { update(data: Uint8Array): { digest(encoding: 'hex'): string } };
}

declare module 'node:events' {
  export function getEventListeners(target: EventTarget, type: string): Function[];
}

declare module 'node:fs' {
  export function readFileSync(path: string): Uint8Array;
  export function readFileSync(path: string, encoding: 'utf8'): string;
}

declare function setImmediate(run: (value?: unknown) => void): void;

declare const require: { (path: string): unknown; cache: Record<string, unknown>; main: { filename: string } };
