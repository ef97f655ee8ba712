import assert from 'node:assert/strict';
import { load, loadSame, openPage, siteKey, table, test } from '../harness';
import type { FakePage } from '../harness';

type Pageview = typeof import('../../../src/svc/pageview');
type Engagement = typeof import('../../../src/svc/engagement');
type Scroll = typeof import('../../../src/svc/scroll');

const begin = (dataset: Record<string, string> = {}): { page: FakePage } & Engagement => {
  const page = openPage({ dataset: { site: siteKey, ...dataset } });
  load<Pageview>('svc/pageview').sendPageview(null);
  page.sent.length = 0;
  const engagement = loadSame<Engagement>('svc/engagement');
  engagement.watchEngagement();
  return { page, ...engagement };
};

/** Hides or shows the page. */
const setHidden = (page: FakePage, hidden: boolean): void => {
  page.document.hidden = hidden;
  page.document.dispatchEvent(new Event('visibilitychange'));
};

test('each message carries the time since the previous one', () => {
  const { page } = begin();
  page.now += 5000;
  setHidden(page, true);
  page.now += 3_600_000;
  setHidden(page, false);
  page.now += 2000;
  setHidden(page, true);
  assert.deepEqual(page.take('ms'), [5000, 2000]);
});

test('leaving the page sends one message, for two events', () => {
  const { page } = begin();
  page.now += 1000;
  page.window.dispatchEvent(new Event('pagehide'));
  page.now += 100;
  setHidden(page, true);
  assert.deepEqual(page.take('ms'), [1000]);
});

test('a page that was never in view sends nothing', () => {
  const page = openPage({ document: { hidden: true } });
  load<Pageview>('svc/pageview').sendPageview(null);
  const { watchEngagement } = loadSame<Engagement>('svc/engagement');
  watchEngagement();
  page.now += 60_000;
  page.window.dispatchEvent(new Event('pagehide'));
  assert.deepEqual(page.take('t'), ['pageview']);
});

table(
  'after a click that leads away',
  {
    'the leaving is silent for a second': [999, [300]],
    'a longer wait is sent': [1000, [300, 1000]],
  } as Record<string, [number, number[]]>,
  ([wait, want]) => {
    const { page, flushBeforeLeaving } = begin();
    page.now += 300;
    flushBeforeLeaving();
    page.now += wait;
    page.window.dispatchEvent(new Event('pagehide'));
    assert.deepEqual(page.take('ms'), want);
  },
);

table(
  'scroll depth',
  {
    'first screen of ten': [[0], 1000, 10],
    'the deepest position counts': [[600, 100], 1000, 70],
    'the end': [[900], 1000, 100],
    'a page that grows': [[100], 2000, 10],
    'shorter than the window': [[0], 50, 100],
    'no height': [[0], 0, 100],
  } as Record<string, [number[], number, number]>,
  ([positions, height, want]) => {
    const { page, depth } = begin();
    for (const position of positions) {
      page.document.scrollingElement.scrollTop = position;
      depth();
    }
    page.document.scrollingElement.scrollHeight = height;
    assert.equal(depth(), want);
  },
);

/** Scrolls the page to a position, and dispatches the event. */
const scroll = (page: FakePage, position: number): void => {
  page.document.scrollingElement.scrollTop = position;
  page.document.dispatchEvent(new Event('scroll'));
};

// Scrolling to 90 %, once per page view (analytics contract, section 2).
test('the scroll event is sent once per page view, at 90 percent', () => {
  const { page } = begin();
  loadSame<Scroll>('svc/scroll').watchScroll();
  scroll(page, 799);
  assert.deepEqual(page.take('e'), []);
  scroll(page, 800);
  scroll(page, 0);
  scroll(page, 900);
  assert.deepEqual(
    page.sent.splice(0).map((each) => [each.body.e, each.body.m]),
    [['scroll', { percent: 90 }]],
  );
  loadSame<Pageview>('svc/pageview').sendPageview(null);
  scroll(page, 900);
  assert.deepEqual(page.take('e'), [undefined, 'scroll']);
});

test('no scroll event with data-auto="off"', () => {
  const { page } = begin({ auto: 'off' });
  loadSame<Scroll>('svc/scroll').watchScroll();
  scroll(page, 900);
  assert.deepEqual(page.sent, []);
});
