// The browser script of the analytics service: one tag, one global function, nothing stored on the device.
import { cut } from './address';
import { perform } from './calls';
import { say } from './debug';
import { startEngagement, watchEngagement } from './engagement';
import { guard, listen } from './guard';
import { watchLinks } from './links';
import { current, pageview } from './pageview';
import { refused } from './privacy';
import { watchRoutes } from './routes';
import { watchScroll } from './scroll';
import { auto, siteKey } from './tag';

const install = (): void => {
  const stub = window.svc;
  if (stub && stub.on) return;

  const waiting: Call[] = Array.from((stub && (stub.q as Call[] | undefined)) || []);
  let take = (call: Call): void => void waiting.push(call);
  const svc: Svc = (...call) => take(call);
  svc.q = { push: (call) => take(call) };
  svc.on = true;
  window.svc = svc;

  if (!siteKey) console.warn('svc: data-site must be a site key, 32 hexadecimal characters');
  if (!siteKey || refused()) {
    take = () => {};
    return say('sends nothing: no site key, Do Not Track or Global Privacy Control');
  }

  const start = () => {
    // Who the visitor is belongs to the first page view already; everything else follows it, in order.
    const who = waiting.find((call) => call[0] === 'identify');
    if (who) perform(who);
    pageview(cut(document.referrer));
    watchEngagement();
    watchScroll();
    watchLinks();
    if (auto) watchRoutes();
    // Back from the back/forward cache: the same document is viewed once more. Its time was sent when it was left.
    listen(window, 'pageshow', (shown: PageTransitionEvent) => {
      if (!shown.persisted) return;
      startEngagement();
      pageview(current.r);
    });
    take = guard(perform);
    waiting.forEach(take);
  };

  // A page that is only being prepared counts when somebody looks at it.
  if (document.prerendering) listen(document, 'prerenderingchange', start);
  else start();
};

guard(install)();
