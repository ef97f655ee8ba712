import assert from 'node:assert/strict';
import { define, load, loadSame, table, test } from '../harness';

type Format = typeof import('../../../src/console/core/format');
type Names = typeof import('../../../src/console/drilldown/names');
type Values = typeof import('../../../src/console/core/values');
type Language = typeof import('../../../src/console/core/language');
type Countries = typeof import('../../../src/console/parts/countries');

define({
  navigator: { languages: ['en'] },
  document: { documentElement: { lang: '', dataset: {} } },
  location: { hash: '' },
});

const { decoded } = load<Format>('console/core/format');
const { eventName, hostText } = load<Names>('console/drilldown/names');

table(
  'paths are decoded as far as they can be read',
  {
    German: { path: '/%C3%BCber/stra%c3%9fe', want: '/über/straße' },
    Chinese: { path: '/%E4%BD%A0%E5%A5%BD', want: '/你好' },
    emoji: { path: '/%F0%9F%98%80', want: '/😀' },
    ASCII: { path: '/a%2Fb%20c%3Cd', want: '/a%2Fb%20c%3Cd' },
    'not UTF-8': { path: '/%FF%C3%BC%C3', want: '/%FFü%C3' },
    overlong: { path: '/%C0%AF', want: '/%C0%AF' },
    surrogate: { path: '/%ED%A0%80', want: '/%ED%A0%80' },
    'control character': { path: '/%C2%85', want: '/%C2%85' },
    direction: { path: '/%E2%80%AEabc', want: '/%E2%80%AEabc' },
    'wide space': { path: '/%E3%80%80', want: '/%E3%80%80' },
  },
  ({ path, want }) => assert.equal(decoded(path), want),
);

// The first ones are samples of RFC 3492, section 7.1.
table(
  'hosts in their own letters',
  {
    Chinese: { host: 'xn--ihqwcrb4cv8a8dqg056pqjye', want: '他们为什么不说中文' },
    Czech: { host: 'xn--Proprostnemluvesky-uyb24dma41a', want: 'pročprostěnemluvíčesky' },
    Japanese: { host: 'www.xn--3B-ww4c5e180e575a65lsy2b.example', want: 'www.3年b組金八先生.example' },
    German: { host: 'xn--mnchen-3ya.de/stra%C3%9Fe', want: 'münchen.de/stra%C3%9Fe' },
    'top level': { host: 'xn--80ak6aa92e.com', want: 'аррӏе.com' },
    'Latin among Cyrillic': { host: 'xn--pple-43d.com', want: 'xn--pple-43d.com' },
    'a question mark': { host: 'xn--egbpdaj6bu4bxfgehfvwxn', want: 'xn--egbpdaj6bu4bxfgehfvwxn' },
    'a sign with a dot': { host: 'xn--a-ecp.ru', want: 'xn--a-ecp.ru' },
    'no code': { host: 'xn--.example', want: 'xn--.example' },
    'beyond Unicode': { host: 'xn--99999999.example', want: 'xn--99999999.example' },
    ASCII: { host: 'www.example.org', want: 'www.example.org' },
  },
  ({ host, want }) => assert.equal(hostText(host), want),
);

test('events of the script have readable names, and those of owners keep theirs', () => {
  assert.notEqual(eventName('add_to_cart'), '');
  for (const name of ['signup', 'add_to_cart2', 'xpurchase', '', 'constructor']) assert.equal(eventName(name), '');
});

const german = load<{ default: Record<string, string> }>('console/messages/de').default;

/** speak loads modules in a language of the console. */
function speak(language: 'en' | 'de') {
  define({ navigator: { languages: [language] } });
  load<Language>('console/core/language').setLanguage(language, language === 'de' ? german : {});
  return {
    values: loadSame<Values>('console/core/values'),
    countries: loadSame<Countries>('console/parts/countries'),
  };
}

table(
  'texts of values',
  {
    country: { dimension: 'COUNTRY', value: 'DE', en: 'Germany', de: 'Deutschland' },
    'country without a name': { dimension: 'COUNTRY', value: 'QX', en: 'QX', de: 'QX' },
    'broken country': { dimension: 'COUNTRY', value: '!', en: '!', de: '!' },
    'unknown country': { dimension: 'COUNTRY', value: '', en: '(unknown)', de: '(unbekannt)' },
    browser: { dimension: 'BROWSER', value: 'Samsung Internet', en: 'Samsung Internet', de: 'Samsung Internet' },
    'unknown browser': { dimension: 'BROWSER', value: '', en: '(unknown)', de: '(unbekannt)' },
    system: { dimension: 'SYSTEM', value: 'macOS', en: 'macOS', de: 'macOS' },
    device: { dimension: 'DEVICE', value: 'phone', en: 'phone', de: 'Telefon' },
    television: { dimension: 'DEVICE', value: 'tv', en: 'TV', de: 'Fernseher' },
    'unknown device': { dimension: 'DEVICE', value: '', en: '(unknown)', de: '(unbekannt)' },
    'later device': { dimension: 'DEVICE', value: 'watch', en: 'watch', de: 'watch' },
    hostname: { dimension: 'HOSTNAME', value: 'www.shop.example', en: 'www.shop.example', de: 'www.shop.example' },
    'unknown hostname': { dimension: 'HOSTNAME', value: '', en: '(unknown)', de: '(unbekannt)' },
    group: { dimension: 'SOURCE_GROUP', value: 'ai assistants', en: 'AI assistants', de: 'KI-Assistenten' },
    'plain group': { dimension: 'SOURCE_GROUP', value: 'social', en: 'social', de: 'soziale Medien' },
    'no source': { dimension: 'SOURCE_GROUP', value: '', en: '(none)', de: '(ohne)' },
    channel: { dimension: 'CHANNEL', value: 'organic search', en: 'organic search', de: 'organische Suche' },
    'small groups of countries': { dimension: 'COUNTRY', value: '(other)', en: '(other)', de: '(übrige)' },
    'small groups of widths': { dimension: 'SCREEN_WIDTH', value: '(other)', en: '(other)', de: '(übrige)' },
    'other pages': { dimension: 'PAGE', value: '(other)', en: '(other)', de: '(other)' },
    language: { dimension: 'LANGUAGE', value: 'fr', en: 'French', de: 'Französisch' },
  },
  ({ dimension, value, en, de }) => {
    assert.equal(speak('en').values.valueText(dimension, value), en);
    assert.equal(speak('de').values.valueText(dimension, value), de);
  },
);

test('rows of small groups are no filters', () => {
  const { isPlain } = speak('en').values;
  assert.equal(isPlain('COUNTRY', { value: '(other)', onlyImported: false }), true);
  assert.equal(isPlain('COUNTRY', { value: 'DE', onlyImported: false }), false);
  assert.equal(isPlain('COUNTRY', { value: '', onlyImported: false }), false);
  assert.equal(isPlain('LANGUAGE', { value: 'de', onlyImported: true }), true);
  assert.equal(isPlain('PAGE', { value: '(other)', onlyImported: false }), false);
  assert.equal(isPlain('HOUR_OF_DAY', { value: '12', onlyImported: false }), false);
});

table(
  'codes of countries',
  {
    code: { text: 'de', want: 'DE' },
    'English name': { text: 'germany', want: 'DE' },
    'German name': { text: 'Österreich', want: 'AT' },
    'without an accent': { text: 'Osterreich', want: 'AT' },
    Kosovo: { text: 'Kosovo', want: 'XK' },
    'name of a former code, too': { text: 'Frankreich', want: 'FR' },
    'no country': { text: 'Atlantis', want: 'Atlantis' },
    'three letters': { text: 'DEU', want: 'DEU' },
  },
  ({ text, want }) => assert.equal(speak('de').countries.countryCode(text), want),
);

test('each country is found by its name', () => {
  // Some codes of model.Countries with names that are alike, long, or new.
  const codes = 'AG BA BQ CD CG CI CZ DM DO FK GN GQ GW HK KN KP KR MK MM MO NE NG NL PS SJ ST SX SZ TL TR UM US VC VG VI WS XK'.split(' ');
  for (const language of ['en', 'de'] as const) {
    const { values, countries } = speak(language);
    for (const code of codes) assert.equal(countries.countryCode(values.codeName('region', code)), code);
  }
});

// What the page shows of a stored value can be typed: one of the alternatives is the stored value.
const shownValues = load<Values>('console/core/values');
const typedValues = loadSame<typeof import('../../../src/console/parts/typed')>('console/parts/typed');

table(
  'what is shown can be typed',
  {
    plain: { dimension: 'PAGE', stored: '/shop/kettle', alternatives: 1 },
    'letters of browsers': { dimension: 'PAGE', stored: '/caf%C3%A9', alternatives: 3 },
    'small escapes': { dimension: 'ENTRY_PAGE', stored: '/caf%c3%a9', alternatives: 3 },
    'from a server': { dimension: 'EXIT_PAGE', stored: '/café', alternatives: 3 },
    'escapes of ASCII': { dimension: 'PAGE', stored: '/a%20b%25', alternatives: 1 },
    'lone percent': { dimension: 'PAGE', stored: '/100%', alternatives: 1 },
    emoji: { dimension: 'PAGE', stored: '/%F0%9F%98%80', alternatives: 3 },
    'right to left': { dimension: 'PAGE', stored: '/%E2%80%AE', alternatives: 1 },
    'not UTF-8': { dimension: 'PAGE', stored: '/%FF', alternatives: 1 },
    host: { dimension: 'HOSTNAME', stored: 'xn--bcher-kva.example', alternatives: 2 },
    source: { dimension: 'SOURCE', stored: 'www.xn--mnchen-3ya.de', alternatives: 2 },
    'source with a dot': { dimension: 'SOURCE', stored: 'frühling.2026', alternatives: 2 },
    name: { dimension: 'SOURCE_NAME', stored: 'Google', alternatives: 1 },
    referrer: { dimension: 'REFERRER', stored: 'xn--bcher-kva.example/stra%C3%9Fe', alternatives: 4 },
    imitation: { dimension: 'HOSTNAME', stored: 'xn--pypal-4ve.com', alternatives: 1 },
    width: { dimension: 'SCREEN_WIDTH', stored: '1280', alternatives: 1 },
    campaign: { dimension: 'UTM_CAMPAIGN', stored: 'früh %C3', alternatives: 1 },
  },
  ({ dimension, stored, alternatives }) => {
    shownValues.naming.of = hostText;
    const found = typedValues.typed(dimension, shownValues.valueText(dimension, stored));
    assert.ok(found.includes(stored), `${stored} is not in ${found.join(' ')}`);
    assert.equal(found.length, alternatives);
  },
);

test('patterns keep their wildcards', () => {
  const { typed } = typedValues;
  assert.equal(typed('PAGE', '/über/**')[0], '/%C3%BCber/**');
  assert.equal(typed('PAGE', '/a b?')[0], '/a%20b?');
  assert.equal(typed('HOSTNAME', '*.bücher.example')[0], '*.xn--bcher-kva.example');
  assert.deepEqual(typed('PAGE', '/shop/**'), ['/shop/**']);
});

test('typed values are no more than a filter takes, each once', () => {
  const { typed } = typedValues;
  assert.deepEqual(typed('PAGE', '/a b', '/a b'), ['/a%20b', '/a b']);

  const lines = (n: number): string[] => Array.from({ length: n }, (_, i) => '/é' + i);
  assert.equal(typed('PAGE', ...lines(16)).length, 48);
  assert.deepEqual(typed('PAGE', ...lines(17)), lines(17).map((line) => line.replace('é', '%C3%A9')));
});

test('filters name events as reports do', () => {
  shownValues.naming.event = (name) => eventName(name) || name;
  const label = (dimension: 'EVENT' | 'PROPERTY', event?: string) =>
    shownValues.filterLabel({ dimension, operator: 'IS', values: ['xn--80ataoec1a'], ...(event && { event, property: 'plan' }) });
  assert.equal(label('EVENT').values, 'покупка');
  assert.equal(label('PROPERTY', 'xn--80ataoec1a').what, 'покупка: plan');
  assert.equal(label('PROPERTY', 'signup').what, 'signup: plan');
});
