import assert from 'node:assert/strict';
import { load, openPage, siteKey, table, test } from '../harness';

type Tag = typeof import('../../../src/svc/tag');

const tagWith = (dataset: Record<string, string> | null, url = 'http://shop.test/'): Tag => {
  openPage({ dataset, url });
  return load<Tag>('svc/tag');
};

// A site key is 32 hexadecimal characters (analytics contract, section 1).
table(
  'siteKey',
  {
    valid: [siteKey, siteKey],
    'upper case': [siteKey.toUpperCase(), undefined],
    'too short': [siteKey.slice(1), undefined],
    'too long': [siteKey + '0', undefined],
    'not hexadecimal': ['g'.repeat(32), undefined],
    empty: ['', undefined],
  },
  ([site, want]) => assert.equal(tagWith({ site: site! }).siteKey, want),
);

test('siteKey: no tag', () => assert.equal(tagWith(null).siteKey, undefined));

table(
  'attributes',
  {
    none: [{}, { auto: true, search: false }],
    'data-auto="off"': [{ auto: 'off' }, { auto: false, search: false }],
    'data-auto with another value': [{ auto: 'on' }, { auto: true, search: false }],
    'data-search without a value': [{ search: '' }, { auto: true, search: true }],
  } as Record<string, [Record<string, string>, object]>,
  ([dataset, want]) => {
    const { auto, search } = tagWith({ site: siteKey, ...dataset });
    assert.deepEqual({ auto, search }, want);
  },
);

table(
  'debug',
  {
    '?svc_debug': true,
    '?a=1&svc_debug': true,
    '?svc_debug=1': true,
    '?svc_debugging': false,
    '?not_svc_debug': false,
    '': false,
  },
  (want, search) => assert.equal(tagWith({}, 'http://shop.test/' + search).debug, want),
);

table(
  'endpoint',
  {
    'at the root of an origin': ['http://data.test/svc.js', 'http://data.test/collect.php'],
    'in a folder': ['https://shop.test/x/svc.js', 'https://shop.test/x/collect.php'],
    'in a folder of a folder': ['https://shop.test/a/b/svc.js', 'https://shop.test/a/b/collect.php'],
    'under another name': ['https://shop.test/x/anything.js', 'https://shop.test/x/collect.php'],
    'without a file name': ['https://shop.test/x/', 'https://shop.test/x/collect.php'],
    'a name without an extension': ['https://shop.test/x', 'https://shop.test/collect.php'],
    'another port': ['http://shop.test:8080/x/a.js', 'http://shop.test:8080/x/collect.php'],
    'a query with slashes': ['https://shop.test/x/a.js?v=1/2&to=https://b.test/c/', 'https://shop.test/x/collect.php'],
    'a fragment with slashes': ['https://shop.test/x/a.js#/b/c?d', 'https://shop.test/x/collect.php'],
    'an escaped slash': ['https://shop.test/x%2Fy/a.js', 'https://shop.test/x%2Fy/collect.php'],
    'a blob': ['blob:https://shop.test/2f2a9c3e-0000-4000-8000-000000000000', ''],
    'a data address': ['data:text/javascript,svc', ''],
    'an extension': ['chrome-extension://abcdef/svc.js', ''],
    inline: ['', ''],
  } as Record<string, [string, string]>,
  ([src, want]) => {
    openPage({ src });
    assert.equal(load<Tag>('svc/tag').endpoint, want);
  },
);

test('endpoint: no tag', () => assert.equal(tagWith(null).endpoint, ''));

test('endpoint: a relative src that a later address of the page resolves differently', () => {
  const page = openPage({ src: 'http://shop.test/x/svc.js' });
  const { endpoint } = load<Tag>('svc/tag');
  page.document.currentScript.src = 'http://shop.test/cart/x/svc.js';
  assert.equal(endpoint, 'http://shop.test/x/collect.php');
});

test('endpoint: in a module', () => {
  const page = openPage({ src: 'https://shop.test/x/a.js' });
  page.document.currentScript = null;
  assert.equal(load<Tag>('svc/tag').endpoint, 'https://shop.test/x/collect.php');
});

test('an image with the name "currentScript" is not the tag', () => {
  const page = openPage();
  page.document.currentScript = { src: 'http://other.test/x.png', dataset: { site: 'f'.repeat(32) } };
  assert.equal(load<Tag>('svc/tag').siteKey, siteKey);
});

test('a loader that evaluates the script is not the tag', () => {
  const page = openPage({ src: 'http://data.test/svc.js' });
  const { constructor } = page.document.currentScript;
  page.document.currentScript = new constructor('http://shop.test/loader.js', {});
  const { siteKey: found, endpoint } = load<Tag>('svc/tag');
  assert.deepEqual([found, endpoint], [siteKey, 'http://data.test/collect.php']);
});
