import assert from 'node:assert/strict';
import { load, loadSame, openPage, siteKey, table, test } from '../harness';
import type { FakePage, PageOptions } from '../harness';

type Send = typeof import('../../../src/svc/send');
type Event = typeof import('../../../src/svc/event');
type View = typeof import('../../../src/svc/view');

/** Opens a page and begins a page view. */
const begin = (
  options: PageOptions = {},
): { page: FakePage; send: Send['send']; identify: Send['identify']; sendEvent: Event['sendEvent'] } => {
  const page = openPage(options);
  const { send, identify } = load<Send>('svc/send');
  loadSame<View>('svc/view').beginView('http://other.test/from');
  return { page, send, identify, sendEvent: loadSame<Event>('svc/event').sendEvent };
};

const userId = 'ab'.repeat(32);

// The collection payload, key by key (analytics contract, section 2).
table(
  'payload',
  {
    pageview: [{}, { t: 'pageview' }, { t: 'pageview' }],
    'manual page view': [{}, { t: 'pageview', x: 1 }, { t: 'pageview', x: 1 }],
    event: [{}, { t: 'event', e: 'signup', m: { plan: 'pro' } }, { t: 'event', e: 'signup', m: { plan: 'pro' } }],
    'event without properties': [{}, { t: 'event', e: 'signup', m: undefined }, { t: 'event', e: 'signup' }],
    engagement: [{}, { t: 'engagement', ms: 1500, sc: 40 }, { t: 'engagement', ms: 1500, sc: 40 }],
    'data-auto="off"': [{ dataset: { site: siteKey, auto: 'off' } }, { t: 'pageview' }, { t: 'pageview', a: 'off' }],
    'campaign values': [
      { url: 'http://shop.test/p?utm_source=News' },
      { t: 'pageview' },
      { t: 'pageview', u: { source: 'news' } },
    ],
  } as Record<string, [PageOptions, Parameters<Send['send']>[0], object]>,
  ([options, message, want]) => {
    const { page, send } = begin({ url: 'http://shop.test/p?secret=1', ...options });
    assert.equal(send(message), true);
    assert.equal(page.sent.length, 1);
    const body = page.sent[0]!.body;
    assert.match(String(body.i), /^[0-9a-f]{16}$/);
    assert.deepEqual(body, {
      k: siteKey,
      p: '/p',
      r: 'http://other.test/from',
      i: body.i,
      u: {},
      w: 1440,
      l: 'en-GB',
      ...want,
    });
    assert.equal(page.sent[0]!.url, 'http://data.test/collect.php');
  },
);

// Prototype 1.6 gives these to the kinds of values.
test('a toJSON of all arrays and objects changes nothing', () => {
  const kinds = [Array, Object, String, Number].map((kind) => kind.prototype as { toJSON?: () => string });
  const { page, sendEvent } = begin();
  for (const kind of kinds) kind.toJSON = () => 'changed';
  try {
    sendEvent('purchase', { value: 1, items: [{ item_id: 'a', at: new Date(0), own: { toJSON: () => [2] } }] });
  } finally {
    for (const kind of kinds) delete kind.toJSON;
  }
  assert.deepEqual(page.take('m'), [{ value: 1, items: [{ item_id: 'a', at: '1970-01-01T00:00:00.000Z', own: [2] }] }]);
});

test('each page view has its own id', () => {
  const { page, send } = begin();
  send({ t: 'pageview' });
  loadSame<View>('svc/view').beginView(null);
  send({ t: 'pageview' });
  const [first, second] = page.take('i');
  assert.notEqual(first, second);
});

// The value is a SHA-256 hash, never a plain e-mail address (analytics contract, section 4).
table(
  'identify',
  {
    'a hash': [userId, userId],
    'in upper case': [userId.toUpperCase(), userId],
    'an e-mail address': ['someone@shop.test', undefined],
    'one character too many': [userId + '0', undefined],
    empty: ['', undefined],
    undefined: [undefined, undefined],
    'an object': [{}, undefined],
  } as Record<string, [unknown, string | undefined]>,
  ([value, want]) => {
    const { page, send, identify } = begin();
    identify('cd'.repeat(32));
    identify(value);
    send({ t: 'pageview' });
    assert.deepEqual(page.take('d'), [want]);
  },
);

table(
  'the way a message is sent',
  {
    'beacon in Chromium': [{}, ['beacon']],
    'request if Chromium refuses the beacon': [{ beacon: false }, ['request']],
    'fetch in Chromium without beacons': [{ navigator: { sendBeacon: undefined } }, ['fetch']],
    'request in Chromium without beacons on a page that replaces fetch': [
      { navigator: { sendBeacon: undefined }, replaced: true },
      ['request'],
    ],
    'fetch in Firefox': [{ vendor: '' }, ['fetch']],
    'fetch in Safari': [{ vendor: 'Apple Computer, Inc.' }, ['fetch']],
    'beacon in Firefox without keepalive': [{ vendor: '', keepalive: false }, ['beacon']],
    'beacon in Firefox on a page that replaces fetch': [{ vendor: '', replaced: true }, ['beacon']],
    'request if Firefox refuses the beacon': [{ vendor: '', keepalive: false, beacon: false }, ['request']],
    'fetch in debug mode, whose response is logged': [{ url: 'http://shop.test/?svc_debug' }, ['fetch']],
    'beacon in debug mode on a page that replaces fetch': [
      { url: 'http://shop.test/?svc_debug', replaced: true },
      ['beacon'],
    ],
  } as Record<string, [PageOptions, string[]]>,
  ([options, want]) => {
    const { page, send } = begin(options);
    assert.equal(send({ t: 'pageview' }), true);
    assert.deepEqual(
      page.sent.map((each) => each.by),
      want,
    );
  },
);

// Browsers refuse a fetch that outlives the page beyond 64 KiB in flight.
test('at most 60,000 bytes are in flight by fetch', () => {
  const { page, send } = begin({ vendor: '', answering: false });
  for (let i = 0; i < 9; i++) send({ t: 'event', e: 'x', m: { text: 'y'.repeat(7900) } });
  assert.deepEqual(
    page.sent.map((each) => each.by),
    [...Array(7).fill('fetch'), 'request', 'request'],
  );
});

test('what was answered is no longer in flight', async () => {
  const { page, send } = begin({ vendor: '' });
  for (let i = 0; i < 9; i++) {
    send({ t: 'event', e: 'x', m: { text: 'y'.repeat(7900) } });
    await new Promise(setImmediate);
  }
  assert(page.sent.every((each) => each.by === 'fetch'));
});

/** Returns the number of UTF-8 bytes of a page's only message. */
const bytesOf = (page: FakePage): number => new TextEncoder().encode(JSON.stringify(page.sent[0]!.body)).length;

// A message has at most 8 KB (analytics contract, section 8).
test('a message of exactly 8 KB is sent, and one byte more is not', () => {
  const { page, send } = begin();
  send({ t: 'event', e: 'x', m: { text: '' } });
  const room = 8192 - bytesOf(page);
  page.sent.length = 0;
  assert.equal(send({ t: 'event', e: 'x', m: { text: 'y'.repeat(room) } }), true);
  assert.equal(bytesOf(page), 8192);
  assert.equal(send({ t: 'event', e: 'x', m: { text: 'y'.repeat(room + 1) } }), false);
  assert.equal(page.sent.length, 1);
});

test('bytes count, not characters', () => {
  const { page, send } = begin();
  assert.equal(send({ t: 'event', e: 'x', m: { text: 'ä'.repeat(4100) } }), false);
  assert.equal(page.sent.length, 0);
});

const circular: Record<string, unknown> = { id: 1, items: [] };
(circular.items as unknown[]).push(circular);

// A sale keeps its transaction_id, value and currency when its items do not fit.
table(
  'event properties',
  {
    object: [{ a: 1 }, { a: 1 }],
    none: [undefined, undefined],
    null: [null, undefined],
    'not an object': ['text', undefined],
    'items too large': [
      { transaction_id: 't', value: 2, items: Array(4000).fill({}) },
      { transaction_id: 't', value: 2 },
    ],
    'too large without items': [{ text: 'x'.repeat(9000) }, undefined],
    'circular items': [circular, { id: 1 }],
    BigInt: [{ id: 1, n: BigInt(10) }, undefined],
    'toJSON throws': [
      {
        toJSON() {
          throw new Error('no');
        },
      },
      undefined,
    ],
  } as Record<string, [unknown, unknown]>,
  ([properties, want]) => {
    const { page, sendEvent } = begin();
    sendEvent('signup', properties);
    assert.deepEqual(
      page.sent.map((each) => [each.body.e, each.body.m]),
      [['signup', want]],
    );
  },
);
