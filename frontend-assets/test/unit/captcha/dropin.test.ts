import assert from 'node:assert/strict';
import { define, load, table, test } from '../harness';

const { callBack } = load<typeof import('../../../src/captcha/dropin/values')>('captcha/dropin/values');

/** Returns the values that functions of the page were called with. */
const called = (stated: unknown): unknown[] => {
  const calls: unknown[] = [];
  const record = (value: unknown) => calls.push(value);
  define({ window: { top: record, app: { forms: { done: record }, text: 'x' }, number: 7 } });
  callBack(stated === 'itself' ? record : stated, 'token');
  return calls;
};

table(
  'a callback',
  {
    'a function': ['itself', ['token']],
    'a name': ['top', ['token']],
    'a name with dots': ['app.forms.done', ['token']],
    'an unknown name': ['nothing', []],
    'an unknown name with dots': ['nothing.at.all', []],
    'the name of a text': ['app.text', []],
    'the name of a number': ['number', []],
    'a name with an empty part': ['app..done', []],
    empty: ['', []],
    missing: [undefined, []],
    null: [null, []],
    'an object': [{}, []],
  } as Record<string, [unknown, unknown[]]>,
  ([stated, want]) => assert.deepEqual(called(stated), want),
);

test('an error of the page reaches the caller', () => {
  const broken = () => {
    throw new Error('of the page');
  };
  assert.throws(() => callBack(broken), { message: 'of the page' });
});
