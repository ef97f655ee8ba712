import assert from 'node:assert/strict';
import { define, load, table, test } from '../harness';

type Language = typeof import('../../../src/console/core/language');
type Format = typeof import('../../../src/console/core/format');
type Path = typeof import('../../../src/console/core/path');
type Rows = typeof import('../../../src/console/site/rows');

define({
  navigator: { languages: ['de-AT', 'en'] },
  document: { documentElement: { lang: '', dataset: {} } },
  location: { origin: 'https://app.example.test' },
});

const path = load<Path>('console/core/path');

table(
  'match',
  {
    literal: { pattern: '/sites/new', path: '/sites/new', want: {} },
    parameter: { pattern: '/sites/:id/events', path: '/sites/site_1/events', want: { id: 'site_1' } },
    'empty parameter': { pattern: '/sites/:id', path: '/sites/', want: undefined },
    'too long': { pattern: '/sites/:id', path: '/sites/a/b', want: undefined },
    'other name': { pattern: '/sites/:id/events', path: '/sites/a/export', want: undefined },
  },
  ({ pattern, path: given, want }) => assert.deepEqual(path.match(pattern, given), want),
);

table(
  'safeNext',
  {
    nothing: { next: null, want: '/' },
    page: { next: '/sites/a?days=30', want: '/sites/a?days=30' },
    'other host': { next: 'https://evil.example/', want: '/' },
    'other host without scheme': { next: '//evil.example/', want: '/' },
    backslashes: { next: '\\\\evil.example', want: '/' },
    script: { next: 'javascript:alert(1)', want: '/' },
    broken: { next: 'https://', want: '/' },
    'own address': { next: 'https://app.example.test/sites/a?days=30', want: '/sites/a?days=30' },
    'own address of another scheme': { next: 'http://app.example.test/sites', want: '/' },
    'own address with a user': { next: 'https://evil.example@app.example.test/sites', want: '/sites' },
    'own host as a user': { next: 'https://app.example.test@evil.example/', want: '/' },
    'host in the path': { next: 'https://app.example.test//evil.example', want: '/' },
    'host in the path, with a query': { next: 'https://app.example.test//evil.example/?a=b', want: '/' },
    'host after three slashes': { next: 'https://app.example.test///evil.example', want: '/' },
    'host after a backslash': { next: 'https://app.example.test/\\evil.example', want: '/' },
    'host after a dot': { next: '/.//evil.example', want: '/' },
    'host after a line break': { next: '/\n/evil.example', want: '/' },
    'host after a parent': { next: '/sites/..//evil.example', want: '/' },
    'encoded slash': { next: '/%2Fevil.example', want: '/%2Fevil.example' },
    'two slashes later': { next: '/sites//a', want: '/sites//a' },
    relative: { next: 'sites/a', want: '/sites/a' },
    'query only': { next: '?account=a', want: '/?account=a' },
    fragment: { next: '/sites/a#x', want: '/sites/a' },
  },
  ({ next, want }) => {
    assert.equal(path.safeNext(next), want);

    // The history accepts the result only if it has the page's origin.
    const { origin } = location;
    assert.equal(new URL(path.safeNext(next), origin).origin, origin);
  },
);

test('texts take parameters, plurals and the locale of the language', () => {
  const language = load<Language>('console/core/language');
  assert.equal(language.preferredLanguage(), 'de');
  assert.equal(language.t('site.hits', { n: 1 }), '1 page view or event');
  assert.equal(language.t('site.hits', { n: 0 }), '0 page views and events');
  assert.equal(language.t('site.hits', { n: 1234 }), '1,234 page views and events');
  assert.equal(language.t('confirm.type', { name: '{n} $& <b>' }), 'To confirm, type {n} $& <b>');
  assert.equal(language.t('confirm.type'), 'To confirm, type {name}');

  language.setLanguage('de', { 'site.hits': { one: '{n} Treffer', other: '{n} Treffer' } });
  assert.equal(language.locale(), 'de-AT');
  assert.equal(document.documentElement.lang, 'de');
  assert.equal(language.t('close'), 'Close', 'a missing text stays English');
  language.addMessages({ 'site.hits': 'late', saved: 'late' });
  assert.equal(language.t('site.hits', { n: 2 }), '2 Treffer', 'English must not replace another language');
  assert.equal(language.translated('error', 'NOT_FOUND', 'No such site.'), 'No such site.');
});

test('German has every text, with the same parameters', () => {
  const texts = (name: string): Record<string, unknown> =>
    load<{ default: Record<string, unknown> }>('console/messages/' + name).default;
  const names = ['en', 'account', 'captcha', 'drilldown', 'operator', 'parts', 'site'];
  const english: Record<string, unknown> = Object.assign({}, ...names.map(texts));
  const german = { ...texts('de'), ...texts('de-pages') };
  const parameters = (text: unknown): string[] => [...new Set(JSON.stringify(text).match(/\{\w+\}/g) ?? [])].sort();

  assert.deepEqual(
    Object.keys(english).filter((key) => !(key in german)),
    [],
  );
  for (const [key, text] of Object.entries(english)) assert.deepEqual(parameters(german[key]), parameters(text), key);
});

test('times are written relative to now', () => {
  define({ navigator: { languages: ['en-GB'] } });
  const format = load<Format>('console/core/format');
  const now = Date.parse('2026-11-22T12:00:00Z');
  const written = ['2026-11-22T11:59:57Z', '2026-11-22T09:00:00Z', '2026-11-20T12:00:00Z', '2026-11-29T12:00:00Z'].map(
    (time) => format.ago(time, now),
  );
  assert.deepEqual(written, ['3 seconds ago', '3 hours ago', '2 days ago', 'in 7 days']);
  assert.equal(format.utcDay('2026-11-22'), '22 Nov 2026');
  assert.equal(format.percent(99.95), '100.0%');
  assert.equal(format.percent(35), '35.0%');
  assert.equal([-0.04, 0.085, 0.13, 0].map(format.signed).join(' '), '−4.0% +8.5% +13% 0%');
  const durations = load<typeof import('../../../src/console/parts/format')>('console/parts/format');
  assert.equal(durations.milliseconds(999), '999 ms');
  assert.equal(durations.milliseconds(2540), '2.5 s');
});

const rows = load<Rows>('console/site/rows');

table(
  'csvPage',
  {
    header: { text: 'row_id,path\n', follows: false, want: { text: 'row_id,path\n', rows: 0, last: 'row_id' } },
    rows: {
      text: 'row_id,path\n1,/a\n2,/b\n',
      follows: false,
      want: { text: 'row_id,path\n1,/a\n2,/b\n', rows: 2, last: '2' },
    },
    'a later page': { text: 'row_id,path\n3,/c\n', follows: true, want: { text: '3,/c\n', rows: 1, last: '3' } },
    'line breaks and quotes in cells': {
      text: 'row_id,path\n1,"a\nb"\n2,"say ""x""\n9,"\n',
      follows: true,
      want: { text: '1,"a\nb"\n2,"say ""x""\n9,"\n', rows: 2, last: '2' },
    },
  },
  ({ text, follows, want }) => assert.deepEqual(rows.csvPage(text, follows), want),
);

test('jsonPage', () => {
  assert.deepEqual(rows.jsonPage('[\n{"row_id":"1"},\n{"row_id":"2"}]\n'), {
    text: '\n{"row_id":"1"},\n{"row_id":"2"}',
    rows: 2,
    last: '2',
  });
  assert.deepEqual(rows.jsonPage('[]'), { text: '', rows: 0, last: '' });
});
