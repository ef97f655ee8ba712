import { currentPath } from './address';
import { guard, listen } from './guard';
import { sendPageview } from './pageview';
import { currentView, previousAddress } from './view';

/**
 * Sends a page view at each change of the path in a single-page application. Changes of query or
 * fragment only do not count.
 */
export const watchRoutes = (): void => {
  const checkPath = guard(() => {
    if (currentPath() !== currentView.p) sendPageview(previousAddress());
  });
  for (const name of ['pushState', 'replaceState'] as const) {
    // A proxy preserves all that the page can see of the function: name, length, properties,
    // receiver, result and exceptions.
    history[name] = new Proxy(history[name], {
      apply(native, receiver, args) {
        const result: unknown = Reflect.apply(native, receiver, args);
        checkPath();
        return result;
      },
    });
  }
  listen(window, 'popstate', checkPath);
};
