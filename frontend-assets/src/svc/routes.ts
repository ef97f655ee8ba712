import { listen } from './guard';

/**
 * Calls checkPath, which must not throw, after each change of the page's address in a single-page
 * application.
 */
export const watchRoutes = (checkPath: () => void): void => {
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
