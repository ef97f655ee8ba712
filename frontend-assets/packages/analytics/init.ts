import { guard } from '../../src/svc/guard';
import { install } from '../../src/svc/install';
import { configure } from './settings';

/** What the script's tag carries in its attributes. */
export interface Settings {
  /** The site key: 32 hexadecimal characters in lower case. */
  site: string;
  /** {analytics_url}, the address of the data plane, such as https://stats.example.com. */
  url: string;
  /** Automatic events, and page views on route changes. On by default; see data-auto. */
  auto?: boolean;
  /** Send site search terms. Off by default; see data-search. */
  search?: boolean;
}

/**
 * Starts the script, as its tag does: it sends a page view, executes the calls so far, and measures
 * from then on. Does nothing on a server, and nothing if the script runs already. Wrong settings
 * are logged as an error, and nothing starts.
 */
export const init: (settings: Settings) => void = (settings) => {
  if (typeof document === 'undefined' || window.svc?.on) return;
  const problem = configure(settings);
  if (problem) return console.error('@tallygate/analytics: ' + problem);
  guard(install)();
};
