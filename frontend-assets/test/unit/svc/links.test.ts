import assert from 'node:assert/strict';
import { load, loadSame, openPage, siteKey, table } from '../harness';
import type { FakePage } from '../harness';

type Pageview = typeof import('../../../src/svc/pageview');
type Links = typeof import('../../../src/svc/links');

interface Link {
  href?: unknown;
  download?: string;
  tagName?: string;
}

const begin = (dataset: Record<string, string> = {}): FakePage => {
  const page = openPage({ url: 'http://www.shop.test/start', dataset: { site: siteKey, ...dataset } });
  load<Pageview>('svc/pageview').sendPageview(null);
  loadSame<Links>('svc/links').watchLinks();
  page.sent.length = 0;
  return page;
};

/** Clicks on an element within a link, and returns the events as name and properties. */
const click = (page: FakePage, link: Link, button = 0, type = 'click'): unknown[] => {
  const path = [{ tagName: 'B' }, { tagName: 'A', ...link }, { tagName: 'BODY' }, {}];
  page.document.dispatchEvent(Object.assign(new Event(type), { button, composedPath: () => path }));
  return page.sent
    .splice(0)
    .filter((each) => each.body.t === 'event')
    .map((each) => [each.body.e, each.body.m]);
};

// The contract's extensions (analytics contract, section 2).
const extensions =
  'pdf doc docx xls xlsx ppt pptx odt ods odp rtf txt csv zip rar 7z gz dmg exe msi pkg apk epub mp3 wav mp4 mov avi wmv mkv'.split(
    ' ',
  );

table('file_download', Object.fromEntries(extensions.map((ext) => [ext, ext])), (ext) => {
  assert.equal(extensions.length, 30);
  const href = `http://www.shop.test/files/Price%20list.${ext.toUpperCase()}?private=1#page=2`;
  assert.deepEqual(click(begin(), { href }), [['file_download', { file: `Price%20list.${ext.toUpperCase()}`, ext }]]);
});

table(
  'not a download',
  {
    'another extension': '/page.html',
    'a longer extension': '/a.xpdf',
    'a suffix of the extension': '/a.pdfx',
    'in the middle of the path': '/a.pdf/',
    'in the query': '/a?file=b.pdf',
    'a dot file': '/.pdf',
  },
  (path) => assert.deepEqual(click(begin(), { href: 'http://www.shop.test' + path }), []),
);

table(
  'download attribute',
  {
    'names the file': [
      { href: 'http://www.shop.test/export?id=1', download: 'Report 1.CSV' },
      [['file_download', { file: 'Report 1.CSV', ext: 'csv' }]],
    ],
    'of a blob': [
      { href: 'blob:http://www.shop.test/1-2', download: 'table.xlsx' },
      [['file_download', { file: 'table.xlsx', ext: 'xlsx' }]],
    ],
    'the path has precedence': [
      { href: 'http://www.shop.test/a.zip', download: 'b.pdf' },
      [['file_download', { file: 'a.zip', ext: 'zip' }]],
    ],
  } as Record<string, [Link, unknown[]]>,
  ([link, want]) => assert.deepEqual(click(begin(), link), want),
);

// The site's own domain and its subdomains are not outbound (analytics contract, section 2).
table(
  'outbound_click',
  {
    'another website': ['http://other.test/a?b#c', 'other.test'],
    'another port': ['https://other.test:8443/', 'other.test'],
    'a domain that ends with the same text': ['http://notshop.test/', 'notshop.test'],
    'the same host': ['http://www.shop.test/x', undefined],
    'the domain without www': ['http://shop.test/', undefined],
    'a subdomain': ['http://a.b.shop.test/', undefined],
    mail: ['mailto:someone@other.test', undefined],
    script: ['javascript:void 0', undefined],
  } as Record<string, [string, string | undefined]>,
  ([href, want]) => assert.deepEqual(click(begin(), { href }), want ? [['outbound_click', { host: want }]] : []),
);

table(
  'clicks that count',
  {
    'left button': [0, 'click', 1],
    'middle button': [1, 'auxclick', 1],
    'right button': [2, 'auxclick', 0],
  } as Record<string, [number, string, number]>,
  ([button, type, want]) => assert.equal(click(begin(), { href: 'http://other.test/' }, button, type).length, want),
);

table(
  'links',
  {
    area: { tagName: 'AREA', href: 'http://other.test/' },
    'in SVG': { tagName: 'a', href: { baseVal: 'http://other.test/' } },
  } as Record<string, Link>,
  (link) => assert.deepEqual(click(begin(), link), [['outbound_click', { host: 'other.test' }]]),
);

table(
  'not links',
  {
    'no address': {},
    'an unreadable address': { href: 'http://[' },
    'another element': { tagName: 'ABBR', href: 'http://other.test/' },
  } as Record<string, Link>,
  (link) => assert.deepEqual(click(begin(), link), []),
);

table(
  'a file on another website',
  {
    'is both events': [{}, ['outbound_click', 'file_download']],
    'is none with data-auto="off"': [{ auto: 'off' }, []],
  } as Record<string, [Record<string, string>, string[]]>,
  ([dataset, want]) => {
    const page = begin(dataset);
    const names = click(page, { href: 'http://other.test/SETUP.EXE' }).map((event) => (event as string[])[0]);
    assert.deepEqual(names.sort(), want.sort());
  },
);

// Engagement is sent before a leaving link click (analytics contract, section 4).
table(
  'engagement before',
  {
    'another page': ['http://www.shop.test/next', [700]],
    'another website': ['http://other.test/', [700]],
    'a fragment of this page': ['http://www.shop.test/start#part', []],
    mail: ['mailto:someone@shop.test', []],
  } as Record<string, [string, number[]]>,
  ([href, want]) => {
    const page = begin({ auto: 'off' });
    page.now += 700;
    page.document.dispatchEvent(
      Object.assign(new Event('click'), { button: 0, composedPath: () => [{ tagName: 'A', href }] }),
    );
    assert.deepEqual(page.take('ms'), want);
  },
);
