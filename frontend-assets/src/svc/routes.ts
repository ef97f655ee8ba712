import { path } from './address';
import { guard, listen } from './guard';
import { pageview } from './pageview';
import { current, previous } from './view';

/**
 * Counts a page view at each change of the path in a single-page application. Other changes of the
 * address are none.
 */
export const watchRoutes = (): void => {
  const look = guard(() => {
    if (path() !== current.p) pageview(previous());
  });
  for (const name of ['pushState', 'replaceState'] as const) {
    // A proxy keeps all that the page can see of the function: name, length, properties, receiver,
    // result and exceptions.
    history[name] = new Proxy(history[name], {
      apply(native, receiver, args) {
        const result: unknown = Reflect.apply(native, receiver, args);
        look();
        return result;
      },
    });
  }
  listen(window, 'popstate', look);
};
