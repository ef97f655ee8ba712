import assert from 'node:assert/strict';
import { load, openPage, siteKey, table, test } from '../harness';
import type { PageOptions } from '../harness';

const userId = 'ab'.repeat(32);

test('queued calls are replayed in order, after the page view', () => {
  const page = openPage({
    window: {
      svc: {
        q: [['event', 'first', { n: 1 }], ['nonsense'], ['event'], ['identify', userId], null, ['event', 'second']],
      },
    },
    referrer: 'http://other.test/from?private=1',
  });
  load('svc/main');
  assert.deepEqual(
    page.sent.map(({ body }) => [body.t, body.e, body.r, body.d]),
    [
      ['pageview', undefined, 'http://other.test/from', userId],
      ['event', 'first', 'http://other.test/from', userId],
      ['event', 'second', 'http://other.test/from', userId],
    ],
  );
  page.sent.length = 0;
  page.window.svc('event', 'third');
  page.window.svc.q.push(['event', 'fourth']);
  assert.deepEqual(page.take('e'), ['third', 'fourth']);
});

test('a second copy of the script does nothing', () => {
  const page = openPage();
  load('svc/main');
  load('svc/main');
  assert.deepEqual(page.take('t'), ['pageview']);
});

// When the browser sends a Do Not Track signal, the script sends nothing (analytics contract,
// section 1).
table(
  'nothing is sent',
  {
    'Do Not Track': { navigator: { doNotTrack: '1' } },
    'Do Not Track, spelt out': { navigator: { doNotTrack: 'yes' } },
    'Do Not Track of the window': { window: { doNotTrack: '1' } },
    'Global Privacy Control': { navigator: { globalPrivacyControl: true } },
    'a local file': { url: 'file:///home/page.html' },
    'an inline script': { src: '' },
    'a script from a blob': { src: 'blob:http://shop.test/2f2a9c3e' },
    'no site key': { dataset: {} },
    'a malformed site key': { dataset: { site: 'short' } },
  } as Record<string, PageOptions>,
  (options) => {
    const page = openPage(options);
    load('svc/main');
    page.window.svc('event', 'late');
    page.window.svc('pageview');
    page.history.pushState(0, '', '#other');
    page.now += 1000;
    page.window.dispatchEvent(new Event('pagehide'));
    assert.deepEqual(page.sent, []);
    assert.deepEqual(page.console, options.dataset ? ['warn svc: data-site is no site key'] : []);
  },
);

table(
  'everything is sent',
  {
    'Do Not Track is 0': { navigator: { doNotTrack: '0' } },
    'Do Not Track is unspecified': { navigator: { doNotTrack: 'unspecified' } },
    'Global Privacy Control is off': { navigator: { globalPrivacyControl: false } },
  } as Record<string, PageOptions>,
  (options) => {
    const page = openPage(options);
    load('svc/main');
    assert.deepEqual(page.take('t'), ['pageview']);
  },
);

test('debug mode logs why nothing is sent', () => {
  const page = openPage({ url: 'http://shop.test/?svc_debug', navigator: { doNotTrack: '1' } });
  load('svc/main');
  assert.deepEqual(page.console, ['log svc sends nothing: Do Not Track']);
});

test('debug mode logs that the script has no address', () => {
  const page = openPage({ url: 'http://shop.test/?svc_debug', src: '' });
  load('svc/main');
  assert.deepEqual(page.console, ['log svc sends nothing: script without address']);
});

test('a script in a folder sends to that folder', () => {
  const page = openPage({ src: 'http://shop.test/x/y.js?v=2' });
  load('svc/main');
  assert.deepEqual(
    page.sent.map((each) => String(each.url)),
    ['http://shop.test/x/collect.php'],
  );
});

test('a prerendered page counts when it is shown', () => {
  const page = openPage({ document: { prerendering: true } });
  load('svc/main');
  page.window.svc('event', 'early');
  assert.deepEqual(page.sent, []);
  page.document.dispatchEvent(new Event('prerenderingchange'));
  assert.deepEqual(
    page.sent.map(({ body }) => body.e || body.t),
    ['pageview', 'early'],
  );
});

test('a page that the back/forward cache restores is a new page view', () => {
  const page = openPage({ referrer: 'http://other.test/' });
  load('svc/main');
  const [first] = page.take('i');
  page.window.dispatchEvent(Object.assign(new Event('pageshow'), { persisted: false }));
  assert.deepEqual(page.sent, []);
  page.now += 60_000;
  page.window.dispatchEvent(Object.assign(new Event('pageshow'), { persisted: true }));
  assert.deepEqual(
    page.sent.map(({ body }) => [body.t, body.r]),
    [['pageview', 'http://other.test/']],
  );
  assert.notEqual(page.sent[0]!.body.i, first);
});

table(
  'page views on route changes',
  {
    'with automatic events': [{ site: siteKey }, ['/', '/next']],
    'with data-auto="off"': [{ site: siteKey, auto: 'off' }, ['/']],
  } as Record<string, [Record<string, string>, string[]]>,
  ([dataset, want]) => {
    const page = openPage({ dataset });
    load('svc/main');
    page.history.pushState(0, '', '/next');
    assert.deepEqual(page.take('p'), want);
  },
);

test('a page with frozen history functions is measured all the same', () => {
  const page = openPage();
  Object.freeze(page.history);
  load('svc/main');
  page.window.svc('event', 'x');
  assert.deepEqual(page.take('t'), ['pageview', 'event']);
});
