// The browser script of the analytics service: one tag, one global function, nothing stored on the
// device.
import { cut } from './address';
import { perform } from './calls';
import { say } from './debug';
import { startEngagement, watchEngagement } from './engagement';
import { guard, listen } from './guard';
import { watchLinks } from './links';
import { pageview } from './pageview';
import { refused } from './privacy';
import { watchRoutes } from './routes';
import { watchScroll } from './scroll';
import { identify } from './send';
import { auto, siteKey } from './tag';
import { current } from './view';

const install = (): void => {
  const stub = window.svc;
  if (stub && stub.on) return;

  const calls: Call[] = [...((stub && (stub.q as Call[] | undefined)) || [])];
  const svc: Svc = (...call) => void svc.q!.push(call);
  svc.q = calls;
  svc.on = true;
  window.svc = svc;

  const reason = refused();
  if (!siteKey || reason) {
    svc.q = { push() {} };
    if (!siteKey) console.warn('svc: data-site is no site key');
    return say('sends nothing:', reason);
  }

  const start = () => {
    // Who the visitor is belongs to the first page view already; everything else follows it, in
    // order.
    calls.forEach(guard((call) => call[0] === 'identify' && identify(call[1])));
    pageview(cut(document.referrer));
    watchEngagement();
    watchScroll();
    watchLinks();
    // Back from the back/forward cache: the same document is viewed again. Its time was sent when
    // it was left.
    listen(window, 'pageshow', (shown: PageTransitionEvent) => {
      if (!shown.persisted) return;
      startEngagement();
      pageview(current.r);
    });
    svc.q = { push: guard(perform) };
    calls.forEach(svc.q.push);
    // Last, since it fails on a page that has frozen its history functions.
    if (auto) watchRoutes();
  };

  // A page that is only being prepared counts when it is shown.
  if (document.prerendering) listen(document, 'prerenderingchange', start);
  else start();
};

guard(install)();
