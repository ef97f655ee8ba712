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
    document: { __proto__: { currentScript, querySelector: () => found } },
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
  assert.throws(() => originIn(captcha).apiOf('http://:x'), { reason: 'setup', detail: 'data-api is not an address' }));

table(
  'the script',
  {
    'of the page': [captcha, null, 'http://captcha.test'],
    'in a module': [null, captcha, 'http://captcha.test'],
    'an image with the name "currentScript"': [{ src: 'http://proxy.test/x.png' }, captcha, 'http://captcha.test'],
    inline: [new Script(''), null, 'http://www.shop.test'],
    unknown: [null, null, 'http://www.shop.test'],
  } as Record<string, [unknown, Script | null, string]>,
  ([current, found, want]) => assert.equal(originIn(current, found).apiOf(''), want),
);

test('a page without an origin needs data-api', () => {
  const { apiOf } = originIn(null, null, 'data:text/html,x');
  assert.throws(() => apiOf(''), { reason: 'setup', detail: 'data-api is missing' });
  assert.equal(apiOf('http://captcha.test'), 'http://captcha.test');
});
