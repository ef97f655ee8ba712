import assert from 'node:assert/strict';
import { define, load, table, test } from '../harness';

type Origin = typeof import('../../../src/captcha/widget/origin');

class Script {
  constructor(readonly src: string) {}
}

/** Loads the module in a page, as the script of the given address or, in a module, of none. */
const originIn = (
  currentScript: unknown,
  found: Script | null = null,
  location = 'http://www.shop.test/form',
): Origin => {
  define({
    HTMLScriptElement: Script,
    location: new URL(location),
    document: { __proto__: { currentScript, scripts: [new Script('http://www.shop.test/a.js?/captcha.js'), found || new Script('')] } },
  });
  return load<Origin>('captcha/widget/origin');
};

const captcha = new Script('http://captcha.test/captcha.js');

// data-api overrides the API origin; the default is the script's origin (captcha contract, section 2).
table(
  'data-api',
  {
    '': 'http://captcha.test',
    'http://proxy.test': 'http://proxy.test',
    'http://proxy.test/': 'http://proxy.test',
    'http://proxy.test/captcha//': 'http://proxy.test/captcha',
    '/captcha': 'http://www.shop.test/captcha',
    '//proxy.test': 'http://proxy.test',
  },
  (want, dataApi) => assert.equal(originIn(captcha).apiOf(dataApi), want),
);

test('data-api must be an address', () =>
  assert.throws(() => originIn(captcha).apiOf('http://:x'), { reason: 'setup', detail: 'data-api is no address' }));

table(
  'the script',
  {
    'of the page': [captcha, null, 'http://captcha.test'],
    'in a module': [null, captcha, 'http://captcha.test'],
    'an image with the name "currentScript"': [{ src: 'http://proxy.test/x.png' }, captcha, 'http://captcha.test'],
    'next to a script of a similar name': [captcha, new Script('http://shop.test/captcha.min.js'), 'http://captcha.test'],
    'under another name, next to a script of a similar name': [
      new Script('https://shop.test/x/form.js'),
      new Script('http://shop.test/captcha.min.js'),
      'https://shop.test/x',
    ],
    'evaluated by a loader': [new Script('http://www.shop.test/loader.js'), captcha, 'http://captcha.test'],
    'evaluated by an inline loader': [new Script(''), captcha, 'http://captcha.test'],
    'a second copy': [new Script('http://proxy.test/captcha.js'), captcha, 'http://proxy.test'],
    'in a folder': [new Script('https://shop.test/x/captcha.js'), null, 'https://shop.test/x'],
    'in a folder of a folder': [new Script('https://shop.test/a/b/captcha.js'), null, 'https://shop.test/a/b'],
    'under another name': [new Script('https://shop.test/x/form.js?v=1/2#/3'), null, 'https://shop.test/x'],
    'in a module in a folder': [null, new Script('https://shop.test/x/captcha.js'), 'https://shop.test/x'],
    'a blob': [new Script('blob:http://www.shop.test/2f2a9c3e'), null, 'http://www.shop.test'],
    'a data address': [new Script('data:text/javascript,x'), null, 'http://www.shop.test'],
    inline: [new Script(''), null, 'http://www.shop.test'],
    unknown: [null, null, 'http://www.shop.test'],
  } as Record<string, [unknown, Script | null, string]>,
  ([current, found, want]) => assert.equal(originIn(current, found).apiOf(''), want),
);

test('data-api overrides the folder of the script', () =>
  assert.equal(originIn(new Script('https://shop.test/x/a.js')).apiOf('http://captcha.test'), 'http://captcha.test'));

test('a relative src that a later address of the page resolves differently', () => {
  const script = { __proto__: Script.prototype, src: 'http://www.shop.test/x/a.js' };
  const { apiOf } = originIn(script);
  script.src = 'http://www.shop.test/cart/x/a.js';
  assert.equal(apiOf(''), 'http://www.shop.test/x');
});

test('a local script needs data-api', () =>
  assert.throws(() => originIn(new Script('file:///x/captcha.js'), null, 'file:///x/page.html').apiOf(''), {
    reason: 'setup',
    detail: 'data-api is missing',
  }));

test('a page without an origin needs data-api', () => {
  const { apiOf } = originIn(null, null, 'data:text/html,x');
  assert.throws(() => apiOf(''), { reason: 'setup', detail: 'data-api is missing' });
  assert.equal(apiOf('http://captcha.test'), 'http://captcha.test');
});
