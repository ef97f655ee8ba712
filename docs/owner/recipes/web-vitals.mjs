// Web Vitals of each page view as one event with numbers, by the package web-vitals:
//
//   npm install web-vitals
//
// Bundle this file with the other code of your pages, which have the script's line. LCP, INP, FCP and TTFB are
// milliseconds, CLS is a small number without a unit. Register the event "vitals" in the console. A report shows
// the percentiles of each page:
//
//   query($id: ID!) { site(id: $id) { report(period: {preset: LAST_28_DAYS}) {
//     lcp: numbers(event: "vitals", property: "lcp") {
//       totals { numbers p75 }
//       breakdown(by: PAGE, orderBy: {metric: P75}) { nodes { value figures { numbers p75 } } }
//     }
//     cls: numbers(event: "vitals", property: "cls") { totals { p75 } }
//   } } }
import { onCLS, onFCP, onINP, onLCP, onTTFB } from 'web-vitals';

window.svc = window.svc || function () { (svc.q = svc.q || []).push(arguments) };

const vitals = {};
const keep = ({ name, value }) => (vitals[name.toLowerCase()] = value);
onTTFB(keep);
onFCP(keep);
onLCP(keep);
onINP(keep);
onCLS(keep);

// LCP, INP and CLS are final when the page is hidden: the package reports them just before this listener, which
// was added later. A page that is shown again is not counted twice. INP is missing without a click or a key.
addEventListener('visibilitychange', function send() {
  if (document.visibilityState === 'hidden' && Object.keys(vitals).length > 0) {
    removeEventListener('visibilitychange', send);
    svc('event', 'vitals', { ...vitals });
  }
});
