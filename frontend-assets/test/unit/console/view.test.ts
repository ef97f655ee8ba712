import assert from 'node:assert/strict';
import { define, load, table, test } from '../harness';

type ViewModule = typeof import('../../../src/console/core/view');
type Csv = typeof import('../../../src/console/drilldown/csv');

define({
  navigator: { languages: ['en'] },
  document: { documentElement: { lang: '', dataset: {} } },
  location: { hash: '' },
});

const { addressOf, choiceOf, opened, selectionOf, viewOf, withFilter } = load<ViewModule>('console/core/view');
const { literalOf, matcherOf } = load<typeof import('../../../src/console/drilldown/patterns')>('console/drilldown/patterns');
const { csv } = load<Csv>('console/drilldown/csv');

const read = (query: string) => viewOf(new URLSearchParams(query));

table(
  'addresses that a view keeps',
  {
    defaults: { query: '?' },
    preset: { query: '?period=today&compare=year&dates=1' },
    'preset of 28 days': { query: '?period=28d' },
    'days to compare with': { query: '?period=7d&compare=2026-01-31&dates=1' },
    dates: { query: '?from=2026-01-31&to=2026-02-28' },
    filters: { query: '?f=page:is:/a,/b&f=channel:is_not:direct&f=source:is:' },
    'signs in a value': { query: '?f=page:contains:a%5C,b%5C:c%5C%5Cd%26e%20%C3%BC' },
    property: { query: '?f=property:plan::is:pro&f=property:a%5C:b:signup:matches:x*' },
    'open table': { query: '?all=exit_page&order=visits.asc&q=shop' },
    'tabs and chart': { query: '?metric=bounceRate&table=1&sources=utm_term&events=funnel' },
    'details of visits': { query: '?sources=source_group&pages=hostname&audience=country' },
    'filters by details': { query: '?f=country:is:DE,AT&f=browser:is_not:&f=device:is:phone&f=source_group:is:ai%20assistants' },
    'table of a detail': { query: '?all=system' },
    'open segment': { query: '?f=page:is:/&f=channel:is:email&segment=Readers&in=1' },
    goals: { query: '?events=goal&revenue=entry_page' },
    hour: { query: '?f=hour_of_day:is:08' },
    'chosen funnel': { query: '?events=funnel&funnel=funnel_1' },
    'journeys from a page': { query: '?events=journey&journey=/a%26b' },
    'journeys to an event': { query: '?journey=signup&before=1' },
    cohorts: { query: '?events=cohort' },
  },
  ({ query }) => assert.equal(addressOf(read(query)), query),
);

test('an address keeps the fragment of the page, the token of a shared link', () => {
  location.hash = '#tgl_secret';
  assert.equal(addressOf(read('?period=today'), { period: '28d' }), '?period=28d#tgl_secret');
  assert.equal(addressOf(read('?f=page:is:%23a')), '?f=page:is:%23a#tgl_secret');
  location.hash = '';
});

table(
  'invalid parameters are ignored',
  {
    period: { query: '?period=century' },
    'inherited name': { query: '?period=constructor' },
    comparison: { query: '?compare=yesterday' },
    'half a period': { query: '?from=2026-01-01' },
    'no day': { query: '?from=2026-01-01&to=tomorrow' },
    dimension: { query: '?f=eyes:is:blue' },
    operator: { query: '?f=page:like:/' },
    'no value': { query: '?f=page:is' },
    'further part': { query: '?f=page:is:/:x' },
    'property without a name': { query: '?f=property:::is:pro' },
    metric: { query: '?metric=mood' },
    tab: { query: '?pages=channel' },
    'default tab': { query: '?sources=channel&pages=page&audience=language' },
    'tab of another panel': { query: '?pages=country' },
    table: { query: '?all=funnel' },
    'table of cohorts': { query: '?all=cohort' },
    'filter by journeys': { query: '?f=journey:is:/' },
    'direction without journeys': { query: '?before=1' },
    'table of goals': { query: '?all=goal' },
    'segment without filters': { query: '?in=2' },
    'funnel of another tab': { query: '?funnel=funnel_1' },
    'order without a table': { query: '?order=visits&q=x' },
  },
  ({ query }) => assert.equal(addressOf(read(query)), '?'),
);

test('a filter survives its address', () => {
  const signs = [',', ':', '\\', '/', '%', '&', '=', ' ', '*', 'é', '"', '\n'];
  for (let seed = 1; seed < 400; seed++) {
    const pick = (salt: number): string => signs[(seed * 31 + salt * 17 + ((seed * salt) >> 3)) % signs.length]!;
    const values = [1, 2, 3].slice(0, 1 + (seed % 3)).map((n) => pick(n) + pick(n + 5) + n + pick(n + 9));
    const filter = { dimension: 'PROPERTY', property: 'p' + pick(4), event: 'e' + pick(7), operator: 'IS_NOT', values } as const;
    const view = { ...read(''), filters: [filter as never] };
    assert.deepEqual(read(addressOf(view)).filters, [filter]);
  }
});

test('the panel of the audience opens with languages, which every site has', () => {
  assert.equal(read('').tabs['audience'], 'LANGUAGE');
  assert.equal(read('?audience=browser').tabs['audience'], 'BROWSER');
  assert.equal(addressOf(read('?audience=browser'), { tabs: { audience: 'LANGUAGE' } }), '?');
});

test('a selection has the variables of the operations', () => {
  assert.deepEqual(selectionOf(read('?compare=year&dates=1&f=page:is:/')), {
    period: null,
    filters: [{ dimension: 'PAGE', operator: 'IS', values: ['/'] }],
    compare: { kind: 'PREVIOUS_YEAR', matchDayOfWeek: false },
  });
  assert.equal(selectionOf(read('?period=all&compare=previous')).compare, null);
  assert.deepEqual(selectionOf(read('?period=28d&compare=2026-01-31&dates=1')), {
    period: { preset: 'LAST_28_DAYS' },
    filters: [],
    compare: { from: '2026-01-31', matchDayOfWeek: false },
  });
});

test('an address without a period opens what the server chooses', () => {
  const week = { preset: 'LAST_7_DAYS', compare: 'PREVIOUS_YEAR', matchDayOfWeek: false } as const;
  const address = (query: string, opens?: Parameters<typeof opened>[1]) => addressOf(opened(read(query), opens));
  assert.equal(address('?f=page:is:/', week), '?period=7d&compare=year&dates=1&f=page:is:/');
  assert.equal(address('?compare=previous', week), '?period=7d&compare=previous');
  assert.equal(address('?period=today', week), '?period=today');
  assert.equal(address('?from=2026-01-31&to=2026-02-28', week), '?from=2026-01-31&to=2026-02-28');
  assert.equal(address(''), '?period=28d');
});

test('the server keeps presets and comparisons, and no dates', () => {
  const week = { preset: 'LAST_7_DAYS', compare: 'PREVIOUS_YEAR', matchDayOfWeek: false };
  assert.deepEqual(choiceOf(read('?period=7d&compare=year&dates=1')), week);
  assert.deepEqual(choiceOf(read('?period=7d')), { ...week, compare: null, matchDayOfWeek: true });
  assert.equal(choiceOf(read('?from=2026-01-31&to=2026-02-28')), undefined);
  assert.equal(choiceOf(read('?period=7d&compare=2026-01-31')), undefined);
});

test('a filter replaces one of the same kind', () => {
  const { filters } = read('?f=page:is:/a&f=channel:is:direct');
  const added = withFilter(filters, { dimension: 'PAGE', operator: 'IS', values: ['/b'] });
  assert.equal(addressOf({ ...read(''), filters: added }), '?f=channel:is:direct&f=page:is:/b');
});

table(
  'CSV',
  {
    numbers: { row: ['/a', 12, 0.5, null], want: '/a,12,0.5,\r\n' },
    quotes: { row: ['say "hi", all'], want: '"say ""hi"", all"\r\n' },
    formula: { row: ['=1+1'], want: "'=1+1\r\n" },
    'formula after a blank': { row: [' @x'], want: "' @x\r\n" },
    'formula after a semicolon': { row: ['a;=1'], want: "a;'=1\r\n" },
    'negative number': { row: [-3], want: '-3\r\n' },
    path: { row: ['/a-b+c'], want: '/a-b+c\r\n' },
  },
  ({ row, want }) => assert.equal(csv([row as (string | number | null)[]]), '\ufeff' + want),
);

test('a segment is in use while the filters that it begins with are', () => {
  const view = read('?f=page:is:/&f=language:is:en&f=channel:is:email&segment=Readers&in=2');
  const [page, language, channel] = view.filters;
  assert.match(addressOf(view, { filters: [page!, language!] }), /&segment=Readers$/);
  assert.match(addressOf(view, { filters: [...view.filters, channel!] }), /&segment=Readers&in=2$/);
  for (const filters of [[page!, channel!], [language!, page!], [], [channel!]]) {
    assert.doesNotMatch(addressOf(view, { filters }), /segment|in=/);
  }
});

table(
  'patterns match as those of the server',
  {
    equal: { operator: 'IS', values: ['/a*'], value: '/a*', want: true },
    'no pattern': { operator: 'IS', values: ['/a*'], value: '/ab', want: false },
    path: { operator: 'MATCHES', values: ['/thanks'], value: '/thanks', want: true },
    'part of a path': { operator: 'MATCHES', values: ['/thanks'], value: '/thanks/you', want: false },
    'one star': { operator: 'MATCHES', values: ['/shop/*'], value: '/shop/tea', want: true },
    'one star and a slash': { operator: 'MATCHES', values: ['/shop/*'], value: '/shop/tea/assam', want: false },
    'two stars': { operator: 'MATCHES', values: ['/shop/**'], value: '/shop/tea/assam', want: true },
    'signs of regular expressions': { operator: 'MATCHES', values: ['/a.b(c)+*'], value: '/a.b(c)+x', want: true },
    'a dot is a dot': { operator: 'MATCHES', values: ['/a.b'], value: '/axb', want: false },
    'line break': { operator: 'MATCHES', values: ['/**'], value: '/a\nb', want: true },
    'one of several': { operator: 'MATCHES', values: ['/x', '/y*'], value: '/yes', want: true },
  },
  ({ operator, values, value, want }) => assert.equal(matcherOf(operator, values)(value), want),
);

table(
  'the text that a pattern asks for',
  {
    path: { values: ['/thanks'], want: '/thanks' },
    stars: { values: ['/a/**/thanks/*'], want: '/thanks/' },
    'stars alone': { values: ['**'], want: null },
    several: { values: ['/a', '/b'], want: null },
  },
  ({ values, want }) => assert.equal(literalOf(values), want),
);
