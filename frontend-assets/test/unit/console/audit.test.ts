import assert from 'node:assert/strict';
import type { AuditFields } from '../../../src/console/operations';
import { define, load, loadSame, table, test } from '../harness';

type Sentence = typeof import('../../../src/console/audit/sentence');
type Kinds = typeof import('../../../src/console/audit/kinds');
type Language = typeof import('../../../src/console/core/language');
type Texts = { default: Record<string, string> };

define({
  navigator: { languages: ['en-GB'] },
  document: { documentElement: { lang: '', dataset: {} } },
  location: { origin: 'https://app.example.test', search: '' },
});

const sentences = load<Sentence>('console/audit/sentence');
const language = loadSame<Language>('console/core/language');
const english = loadSame<Texts>('console/messages/audit').default;
const german = loadSame<Texts>('console/messages/de-audit').default;
const { kinds } = loadSame<Kinds>('console/audit/kinds');

/** Entry returns an entry; each change is a name with its values before and after. */
const entry = (action: string, type: string, changes: [string, string | null, string | null][] = [], actor: object = {}): AuditFields => ({
  at: '2026-11-28T05:01:00Z',
  action,
  actor: { kind: 'USER', email: 'anna@shop.example', apiTokenName: null, ...actor },
  object: { type, objectId: 'x', name: 'NAME' },
  changes: changes.map(([name, before, after]) => ({ name, before, after })),
});

const written = (tag: string, of: AuditFields): string => {
  language.setLanguage(tag, tag === 'de' ? german : english);
  return sentences.sentence(of).join(of.object.name);
};

const plan = entry('setSitePlan', 'Site', [
  ['monthlyPageviews', '10000', '100000'],
  ['plan', 'FREE', 'PRO_100K'],
]);
const anna = 'anna@shop.example';

table(
  'sentence',
  {
    'sign-in': { of: entry('signInWithPasskey', 'User'), en: `${anna} signed in`, de: `${anna} hat sich angemeldet` },
    plan: {
      of: plan,
      en: `${anna} changed the plan of NAME from Free to PRO 100K`,
      de: `${anna} hat den Tarif von NAME von Free auf PRO 100K geändert`,
    },
    created: {
      of: entry('createFunnel', 'Funnel', [['name', null, 'Purchase']]),
      en: `${anna} created the funnel NAME`,
      de: `${anna} hat den Trichter NAME angelegt`,
    },
    value: {
      of: entry('markKeyEvent', 'Site', [['keyEvent', null, 'signup']]),
      en: `${anna} marked signup as a key event of NAME`,
      de: `${anna} hat signup als Schlüsselereignis von NAME markiert`,
    },
    'names of fields': {
      of: entry('updateSite', 'Site', [
        ['measureEcommerce', 'false', 'true'],
        ['timeZone', 'UTC', 'UTC'],
      ]),
      en: `${anna} changed NAME: E-commerce`,
      de: `${anna} hat NAME geändert: Shop`,
    },
    token: {
      of: entry('deleteSite', 'Site', [], { kind: 'API_TOKEN', apiTokenName: 'nightly' }),
      en: `${anna} (nightly) deleted NAME`,
      de: `${anna} (nightly) hat NAME gelöscht`,
    },
    'an operator who is not named': {
      of: entry('suspendAccount', 'Account', [], { kind: 'OPERATOR', email: null }),
      en: 'The operator suspended the account NAME',
      de: 'Der Betreiber hat das Konto NAME gesperrt',
    },
    'an unknown action and type': {
      of: entry('system', 'Teapot', [], { kind: 'SYSTEM', email: null }),
      en: 'The service changed NAME',
      de: 'Der Dienst hat NAME geändert',
    },
  },
  ({ of, en, de }) => {
    assert.equal(written('en', of), en);
    assert.equal(written('de', of), de);
  },
);

table(
  'valueText',
  {
    nothing: { value: null, want: '–' },
    'no item': { value: '[]', want: '–' },
    switch: { value: 'true', want: 'On' },
    list: { value: '["a.example","b.example"]', want: 'a.example, b.example' },
    steps: { value: '[{"event":"purchase","label":"Bought"},{"page":"/shop/**"}]', want: 'Bought, /shop/**' },
    object: { value: '{"strict":true,"baseSeconds":2}', want: 'strict: On, Normal seconds: 2' },
    'a cut list': { value: '[{"event":"purch…', want: '[{"event":"purch…' },
  },
  ({ value, want }) => {
    language.setLanguage('en', english);
    assert.equal(sentences.valueText(value), want);
  },
);

test('each action of a kind has a sentence in both languages, with the object at most once', () => {
  for (const [kind, actions] of Object.entries(kinds)) {
    assert.ok(actions.length <= 50, `${kind} has ${actions.length} actions, more than a filter takes`);
    assert.equal(new Set(actions).size, actions.length, kind);
    for (const action of actions) {
      for (const tag of ['en', 'de']) {
        const of = entry(action, 'Site', [['state', 'ACTIVE', 'PAUSED']]);
        const text = written(tag, of);
        assert.match(text, /^anna@shop\.example [^{}]+$/, action);
        assert.ok(text.split('NAME').length <= 2, text);
      }
    }
  }
});

test('German has the parameters of each English text', () => {
  const parameters = (text: string): string[] => (text.match(/\{\w+\}/g) ?? []).sort();
  for (const [key, text] of Object.entries(english)) assert.deepEqual(parameters(german[key]!), parameters(text), key);
});
