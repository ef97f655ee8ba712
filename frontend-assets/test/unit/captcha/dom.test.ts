import assert from 'node:assert/strict';
import { define, load, table, test } from '../harness';

define({ document: {} });

const { bare, setting } = load<typeof import('../../../src/captcha/widget/dom')>('captcha/widget/dom');

class Form {
  #method = 'get';
  get method(): string {
    return this.#method;
  }
  set method(value: string) {
    this.#method = value;
  }
  append(): string {
    return 'appended by ' + this.#method;
  }
}

/** Creates a form whose fields hide its properties, as a page's names do. */
const newForm = (): Form => {
  const form = new Form();
  for (const name of ['append', 'method']) Object.defineProperty(form, name, { value: 'a field', writable: true });
  return form;
};

test('bare reads, writes and calls what a page has hidden', () => {
  const form = newForm();
  const own = bare(form);
  assert.equal(form.method, 'a field');
  assert.equal(own.method, 'get');
  own.method = 'post';
  assert.equal(own.append(), 'appended by post');
  assert.equal(form.method, 'a field');
});

table(
  'setting',
  {
    present: ['value', 'value'],
    'with blanks': [' \n\tvalue ', 'value'],
    empty: ['', ''],
    missing: [null, ''],
  } as Record<string, [string | null, string]>,
  ([value, want]) => {
    class Element {
      getAttribute(name: string): string | null {
        return name === 'data-response-field-name' ? value : null;
      }
    }
    assert.equal(setting(new Element() as never, 'response-field-name'), want);
  },
);
