import assert from 'node:assert/strict';
import { load, loadSame, openPage, siteKey, table, test } from '../harness';
import type { FakePage, PageOptions } from '../harness';

type Pageview = typeof import('../../../src/svc/pageview');
type Routes = typeof import('../../../src/svc/routes');
type Calls = typeof import('../../../src/svc/calls');

/** Opens a page, and sends the automatic page view of its load. */
const begin = (options: PageOptions = {}): { page: FakePage; call: Calls['handleCall'] } => {
  const page = openPage(options);
  load<Pageview>('svc/pageview').sendPageview(null);
  page.sent.length = 0;
  return { page, call: loadSame<Calls>('svc/calls').handleCall };
};

/** Watches the routes of the page that is open. */
const watch = (): void => loadSame<Routes>('svc/routes').watchRoutes(loadSame<Pageview>('svc/pageview').sendRoute);

// A manual page view of the same path within one second of an automatic one is ignored (analytics
// contract, section 3).
table(
  'a manual page view',
  {
    'at once': [0, '/', 0],
    'after exactly one second': [1000, '/', 0],
    'after more than one second': [1001, '/', 1],
    'of another path': [0, '/other', 1],
    'of the same path with another query': [0, '/?q=1', 0],
  } as Record<string, [number, string, number]>,
  ([wait, to, want]) => {
    const { page, call } = begin();
    page.now += wait;
    page.history.replaceState(0, '', to);
    call(['pageview']);
    assert.equal(page.sent.filter((each) => each.body.t === 'pageview' && each.body.x === 1).length, want);
  },
);

test('two manual page views both count', () => {
  const { page, call } = begin();
  page.now += 2000;
  call(['pageview']);
  call(['pageview']);
  assert.deepEqual(
    page.sent.map((each) => each.body.t),
    ['engagement', 'pageview', 'pageview'],
  );
});

test('engagement of the previous page view is sent first, with its id', () => {
  const { page, call } = begin();
  page.now += 2000;
  call(['event', 'x']);
  call(['pageview']);
  const [event, engagement, pageview] = page.sent.map((each) => each.body);
  assert.deepEqual([engagement!.t, engagement!.ms, pageview!.t], ['engagement', 2000, 'pageview']);
  assert.equal(engagement!.i, event!.i);
  assert.notEqual(pageview!.i, event!.i);
  assert.equal(pageview!.r, 'http://shop.test/');
});

test('unknown calls are ignored', () => {
  const { page, call } = begin();
  for (const each of [[], ['nonsense'], ['event'], ['event', 7], ['event', {}], [null]]) call(each);
  assert.deepEqual(page.sent, []);
});

// In single-page applications each change of the path is a page view (analytics contract, section 4).
table(
  'route changes',
  {
    pushState: [['pushState', '/one?secret=1#x'], '/one'],
    replaceState: [['replaceState', '/one'], '/one'],
    'query only': [['pushState', '/?a=1'], undefined],
    'fragment only': [['pushState', '#a'], undefined],
    'state only': [['replaceState', undefined], undefined],
  } as Record<string, [[string, string | undefined], string | undefined]>,
  ([[name, to], want]) => {
    const { page } = begin();
    watch();
    page.history[name](0, '', to);
    assert.deepEqual(page.take('p'), want ? [want] : []);
  },
);

test('going back is a page view, whose referrer is the previous path', () => {
  const { page } = begin();
  watch();
  page.history.pushState(0, '', '/one?secret=1');
  page.location.href = 'http://shop.test/?utm_source=x';
  page.window.dispatchEvent(new Event('popstate'));
  assert.deepEqual(
    page.sent.map((each) => [each.body.p, each.body.r]),
    [
      ['/one', 'http://shop.test/'],
      ['/', 'http://shop.test/one'],
    ],
  );
});

test('where the browser has the Navigation API, the history functions stay untouched', () => {
  const navigation = Object.assign(new EventTarget(), { currentEntry: {} });
  const { page } = begin();
  page.window.navigation = navigation;
  const { pushState } = page.history;
  watch();
  assert.equal(page.history.pushState, pushState);
  for (const path of ['/one?a', '/one?b', '/two']) {
    page.location.href = 'http://shop.test' + path;
    navigation.dispatchEvent(new Event('currententrychange'));
    page.window.dispatchEvent(new Event('popstate'));
  }
  assert.deepEqual(page.take('p'), ['/one', '/two']);
});

test('the history functions keep name, length, receiver, result and exceptions', () => {
  const page = openPage();
  let receiver: unknown;
  page.history.pushState = function pushed(this: unknown, state: unknown, _title: string) {
    receiver = this;
    if (state === 'bad') throw new TypeError('refused');
    return 'result';
  };
  page.history.pushState.mark = 'mark';
  load<Pageview>('svc/pageview').sendPageview(null);
  watch();
  const { pushState } = page.history;
  assert.deepEqual([pushState.name, pushState.length, pushState.mark], ['pushed', 2, 'mark']);
  assert.equal(page.history.pushState(0, ''), 'result');
  assert.equal(receiver, page.history);
  assert.throws(() => page.history.pushState('bad', ''), { name: 'TypeError', message: 'refused' });
});

// Site search: the first non-empty of five parameters, at most 100 characters (analytics contract,
// sections 2 and 8).
table(
  'site search',
  {
    'q=red+boots': 'red boots',
    's=x': 'x',
    'search=y': 'y',
    'query=+z+': 'z',
    'keyword=k': 'k',
    'q=&s=+&search=second': 'second',
    ['q=' + 'y'.repeat(150)]: 'y'.repeat(100),
    ['q=' + 'y'.repeat(99) + '😀z']: 'y'.repeat(99) + '😀',
    'Q=other&term=x&private=me': undefined,
    '': undefined,
  } as Record<string, string | undefined>,
  (want, query) => {
    const page = openPage({ url: 'http://shop.test/?' + query, dataset: { site: siteKey, search: '' } });
    load<Pageview>('svc/pageview').sendPageview(null);
    assert.deepEqual(page.take('m'), want === undefined ? [undefined] : [undefined, { term: want }]);
  },
);

table(
  'no site search',
  {
    'without data-search': { site: siteKey },
    'with data-auto="off"': { site: siteKey, search: '', auto: 'off' },
  } as Record<string, Record<string, string>>,
  (dataset) => {
    const page = openPage({ url: 'http://shop.test/?q=boots', dataset });
    load<Pageview>('svc/pageview').sendPageview(null);
    assert.deepEqual(page.take('t'), ['pageview']);
  },
);
