import assert from 'node:assert/strict';
import { define, load, table } from '../harness';

type Format = typeof import('../../../src/console/core/format');
type Sources = typeof import('../../../src/console/drilldown/sources');

define({
  navigator: { languages: ['en'] },
  document: { documentElement: { lang: '', dataset: {} } },
  location: { hash: '' },
});

const { decoded } = load<Format>('console/core/format');
const { sourceName } = load<Sources>('console/drilldown/sources');

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

table(
  'names of sources',
  {
    name: { source: 'google', want: 'Google' },
    host: { source: 'www.google.com', want: 'Google (www.google.com)' },
    'other country': { source: 'google.co.uk', want: 'Google (google.co.uk)' },
    mobile: { source: 'm.facebook.com', want: 'Facebook (m.facebook.com)' },
    short: { source: 't.co', want: 'X (t.co)' },
    'not the short one': { source: 't.me', want: 't.me' },
    news: { source: 'news.ycombinator.com', want: 'Hacker News (news.ycombinator.com)' },
    'another host': { source: 'google.evil.example', want: 'google.evil.example' },
    'own subdomain': { source: 'mail.google.com', want: 'mail.google.com' },
    letter: { source: 't', want: 't' },
  },
  ({ source, want }) => assert.equal(sourceName(source), want),
);

type Metrics = typeof import('../../../src/console/core/metrics');
type Language = typeof import('../../../src/console/core/language');
type Countries = typeof import('../../../src/console/parts/countries');
type Lines = typeof import('../../../src/console/site/lines');

const german = load<{ default: Record<string, string> }>('console/messages/de').default;

/** inLanguage loads modules that speak a language, and calls a function with them. */
function inLanguage<R>(tag: string, run: (metrics: Metrics, countries: Countries) => R): R {
  navigator.languages = [tag];
  load<Language>('console/core/language').setLanguage(tag, tag === 'de' ? german : {});
  return run(load<Metrics>('console/core/metrics'), load<Countries>('console/parts/countries'));
}
