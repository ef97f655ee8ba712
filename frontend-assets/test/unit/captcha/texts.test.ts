import assert from 'node:assert/strict';
import { define, load, table, test } from '../harness';

type Texts = typeof import('../../../src/captcha/widget/texts');

/** Loads the module in a page and a browser with these languages. */
const textsIn = (pageLang = '', browser?: string[]): Texts => {
  define({
    document: { __proto__: { documentElement: { lang: pageLang } } },
    navigator: { languages: browser, language: 'fi-FI' },
  });
  return load<Texts>('captcha/widget/texts');
};

// The contract's languages (captcha contract, section 2).
const languages = 'cs da de en es et fi fr it nl no pl pt ro sv uk'.split(' ');

table('texts', Object.fromEntries(languages.map((each) => [each, each])), (language) => {
  assert.equal(languages.length, 16);
  const texts = textsIn().textsOf(language);
  const keys = ['idle', 'verifying', 'done', 'error', 'unreachable', 'unsupported', 'setup', 'busy', 'refused', 'wait'];
  assert.deepEqual(Object.keys(texts), keys);
  const values = Object.values(texts);
  assert.equal(new Set(values).size, keys.length, 'a text occurs twice');
  for (const text of values) assert(text && text === text.trim(), `the text "${text}"`);
  // The wait replaces the dots.
  assert.match(texts.verifying, /[^.…]…$/);
  assert.match(texts.wait, /^[^#]+ # [^#]+$/);
});

test('every language has its own texts', () => {
  const { textsOf } = textsIn();
  assert.equal(new Set(languages.map((each) => Object.values(textsOf(each)).join())).size, languages.length);
});

// data-lang, page html lang, browser language. Unrecognised falls back to en; nb is treated as no.
table(
  'data-lang',
  {
    nb: 'no',
    'nb-NO': 'no',
    nn: 'no',
    'nn-NO': 'no',
    NB_no: 'no',
    'no-NO': 'no',
    'pt-BR': 'pt',
    'EN-gb': 'en',
    'uk-UA': 'uk',
    DE: 'de',
    xx: 'en',
    nnn: 'en',
    e: 'en',
    constructor: 'en',
    deu: 'en',
    '-de': 'en',
    '': 'fr', // the page's
    ...Object.fromEntries(languages.map((each) => [each, each])),
  } as Record<string, string>,
  (want, dataLang) => assert.equal(textsIn('fr-CA', ['sv']).languageOf(dataLang), want),
);

table(
  'page and browser',
  {
    'the page decides': ['de-AT', ['sv'], 'de'],
    'an unknown language of the page decides too': ['ja', ['sv'], 'en'],
    'blanks around it': [' de ', ['sv'], 'de'],
    "the browser's first": ['', ['sv', 'fi'], 'sv'],
    "the browser's first that is supported": ['', ['ja-JP', 'zh', 'nb-NO', 'de'], 'no'],
    'none that is supported': ['', ['ja-JP', 'zh'], 'en'],
    'an empty list': ['', [], 'en'],
    'no list': ['', undefined, 'fi'],
  } as Record<string, [string, string[] | undefined, string]>,
  ([pageLang, browser, want]) => assert.equal(textsIn(pageLang, browser).languageOf(''), want),
);
