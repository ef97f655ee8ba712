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

test('endpoint is on the origin of the script', () =>
  assert.equal(String(tagWith({}).endpoint()), 'http://data.test/collect.php'));

test('an image with the name "currentScript" is not the tag', () => {
  const page = openPage();
  page.document.currentScript = { src: 'http://other.test/x.png', dataset: { site: 'f'.repeat(32) } };
  assert.equal(load<Tag>('svc/tag').siteKey, siteKey);
});
