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
    if (currentView.p !== currentPath()) sendPageview(previousAddress());
  });
  listen(window, 'popstate', checkPath);
  // This event follows each change of the address, whichever function made it. An element or a
  // variable of the page with this name has no entry.
  const navigation = window.navigation as Navigation | undefined;
  if (navigation?.currentEntry) return listen(navigation, 'currententrychange', checkPath);

  // Browsers without the Navigation API, before 2026, report no calls of these functions.
  for (const name of ['pushState', 'replaceState'] as const) {
    // A proxy preserves all that the page can see of the function: name, length, properties,
    // receiver, result and exceptions.
    history[name] = new Proxy(history[name], {
      apply(...call) {
        const result: unknown = Reflect.apply(...call);
        checkPath();
        return result;
      },
    });
  }
};
