import { say } from './debug';

/**
 * The same function, except that it never throws into the page. Everything that the page or the
 * browser calls passes here.
 */
export const guard =
  <A extends unknown[]>(f: (...args: A) => void) =>
  (...args: A): void => {
    try {
      f(...args);
    } catch (problem) {
      say(problem);
    }
  };

/**
 * Calls f for each event of a kind, before the page's own listeners can stop it. None of these
 * kinds waits for listeners.
 */
export const listen = (target: EventTarget, type: string, f: (event: never) => void): void =>
  target.addEventListener(type, guard(f) as EventListener, true);
