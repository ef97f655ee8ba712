import { stripQuery } from './address';
import { handleCall } from './calls';
import { log } from './debug';
import { startEngagement, watchEngagement } from './engagement';
import { guard, listen } from './guard';
import { watchLinks } from './links';
import { sendPageview, sendRoute } from './pageview';
import { optOutReason } from './privacy';
import { watchRoutes } from './routes';
import { watchScroll } from './scroll';
import { identify } from './send';
import { auto, siteKey } from './tag';
import { currentView } from './view';

/**
 * Starts the script: it executes the calls that the stub has queued, sends the page view, and watches
 * the page. A second copy of the script does nothing.
 */
export const install = (): void => {
  const stub = window.svc;
  if (stub?.on) return;

  const calls: Call[] = [...((stub?.q as Call[] | undefined) || [])];
  const svc: Svc = (window.svc = (...call) => void svc.q!.push(call));
  svc.q = calls;
  svc.on = true;

  const reason = optOutReason();
  if (!siteKey || reason) {
    svc.q = { push() {} };
    if (!siteKey) console.warn('svc: data-site is no site key');
    return log('sends nothing:', reason);
  }

  const start = () => {
    // The first page view already carries the user id. Everything else follows it, in order.
    calls.forEach(guard((call) => call[0] === 'identify' && identify(call[1])));
    sendPageview(stripQuery(document.referrer));
    watchEngagement();
    watchScroll();
    watchLinks();
    // The back/forward cache restored the document, which is a new page view. The time of the
    // previous page view was sent when it was left.
    listen(window, 'pageshow', (shown: PageTransitionEvent) => {
      if (!shown.persisted) return;
      startEngagement();
      sendPageview(currentView.r);
    });
    svc.q = { push: guard(handleCall) };
    calls.forEach(svc.q.push);
    // This comes last because it throws on a page that has frozen its history functions.
    if (auto) watchRoutes(guard(sendRoute));
  };

  // A prerendered page counts when it is shown.
  if (document.prerendering) listen(document, 'prerenderingchange', start);
  else start();
};
