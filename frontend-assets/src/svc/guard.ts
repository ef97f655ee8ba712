import { log } from './debug';

/**
 * Wraps a function so that it never throws into the page: it returns undefined instead. Everything
 * that the page or the browser calls is wrapped.
 */
export const guard =
  <A extends unknown[], R>(f: (...args: A) => R) =>
  (...args: A): R | undefined => {
    try {
      return f(...args);
    } catch (problem) {
      return log(problem) as undefined;
    }
  };

/**
 * Calls f for each event of a type, before the page's own listeners can stop it. The browser never
 * waits for listeners of these types, so they need not be passive.
 */
export const listen = (target: EventTarget, type: string, f: (event: never) => void): void =>
  target.addEventListener(type, guard(f) as EventListener, true);
