import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { define, load, loadSame, table, test } from '../harness';

const src = 'https://captcha.test/captcha.js';

/** An element with what the package uses. */
class FakeElement extends EventTarget {
  src = '';
  nonce = '';
  className = '';
  hidden = false;
  parent: FakeElement | undefined;
  children: FakeElement[] = [];
  attributes = new Map<string, string>();
  classList = { contains: (name: string) => this.className.split(' ').includes(name) };
  setAttribute(name: string, value: string) {
    this.attributes.set(name, value);
  }
  getAttribute(name: string) {
    return this.attributes.get(name) ?? null;
  }
  removeAttribute(name: string) {
    this.attributes.delete(name);
  }
  append(child: FakeElement) {
    child.parent = this;
    this.children.push(child);
  }
  remove() {
    if (this.parent) this.parent.children = this.parent.children.filter((each) => each !== this);
  }
}

/** A page, with the package's modules in their initial state. */
interface Page {
  window: EventTarget & { serviceCaptcha?: unknown };
  head: FakeElement;
  /** The number of calls of the widget's reset. */
  resets: number;
  load(): Promise<unknown>;
  /** Makes the widget's script run. */
  runWidget(token?: string): void;
  /** Lets the page's load event happen. */
  complete(): void;
}

const openPage = (tags: string[], readyState: string, create = () => new FakeElement()): Page => {
  const head = new FakeElement();
  for (const each of tags) head.append(Object.assign(new FakeElement(), { src: each }));
  const document = {
    readyState,
    head,
    body: new FakeElement(),
    createElement: create,
    get scripts() {
      return head.children;
    },
  };
  define({ window: new EventTarget(), document, location: new URL('https://shop.test/') });
  const module = load<typeof import('../../../packages/captcha/load')>('../packages/captcha/load');
  const page: Page = {
    window: window as unknown as Page['window'],
    head,
    resets: 0,
    load: () => module.load('https://captcha.test/', 'secret'),
    runWidget(token = '') {
      page.window.serviceCaptcha = { reset: () => (page.resets++, 1), getResponse: () => token };
    },
    complete() {
      document.readyState = 'complete';
      page.window.dispatchEvent(new Event('load'));
    },
  };
  return page;
};

const isUnreachable = { name: 'CaptchaError', reason: 'unreachable' };

table(
  'load adds an element',
  {
    'without a tag': { tags: [], readyState: 'interactive', old: 0 },
    'next to a tag of another script': { tags: ['https://shop.test/captcha.js'], readyState: 'loading', old: 1 },
    'after the page, without a tag': { tags: [], readyState: 'complete', old: 0 },
    // The tag's error event came before the call, so that it says nothing more.
    'after the page, whose tag has failed': { tags: [src], readyState: 'complete', old: 1 },
  },
  async ({ tags, readyState, old }) => {
    const page = openPage(tags, readyState);
    const both = [page.load(), page.load()];
    assert.equal(page.head.children.length, old + 1);
    const own = page.head.children[old]!;
    assert.equal(own.src + ' ' + own.nonce, src + ' secret');

    page.runWidget();
    own.dispatchEvent(new Event('load'));
    assert.deepEqual(await Promise.all(both), [page.window.serviceCaptcha, page.window.serviceCaptcha]);
    assert.equal(await page.load(), page.window.serviceCaptcha);
    assert.equal(getEventListeners(page.window, 'load').length, 0);
  },
);

table(
  "load waits for the page's own tag, until",
  {
    'it has loaded': { runs: true, settle: (page: Page) => page.head.children[0]!.dispatchEvent(new Event('load')) },
    'it fails': { runs: false, settle: (page: Page) => page.head.children[0]!.dispatchEvent(new Event('error')) },
    'the page has loaded with the widget': { runs: true, settle: (page: Page) => page.complete() },
    'the page has loaded without the widget': { runs: false, settle: (page: Page) => page.complete() },
  },
  async ({ runs, settle }) => {
    const page = openPage([src], 'interactive');
    const api = page.load();
    assert.equal(page.head.children.length, 1);
    if (runs) page.runWidget();
    settle(page);
    if (runs) {
      assert.equal(await api, page.window.serviceCaptcha);
      return;
    }

    await assert.rejects(api, isUnreachable);
    assert.equal(page.head.children.length, 0, 'the failed tag is still there');
    const again = page.load();
    page.runWidget();
    page.head.children[0]!.dispatchEvent(new Event('load'));
    assert.equal(await again, page.window.serviceCaptcha);
  },
);

test('each load rejects where the page allows no scripts by address', async () => {
  const refused = new TypeError('This document requires TrustedScriptURL');
  const page = openPage([], 'complete', () =>
    Object.defineProperty(new FakeElement(), 'src', {
      set() {
        throw refused;
      },
    }),
  );
  await assert.rejects(page.load(), refused);
  await assert.rejects(page.load(), refused);
  assert.equal(page.head.children.length, 0);
});

test('execute leaves no listener behind, and ends when the widget is removed', async () => {
  const signals: AbortSignal[] = [];
  const Original = AbortController;
  define({
    AbortController: class extends Original {
      constructor() {
        super();
        signals.push(this.signal);
      }
    },
  });

  const page = openPage([], 'complete');
  page.runWidget();
  const { render } = loadSame<typeof import('../../../packages/captcha/widget')>('../packages/captcha/widget');
  const container = new FakeElement();
  const captcha = render(container as never, { url: 'https://captcha.test', sitekey: 'svck_1' });
  const element = container.children[0]!;
  const removed = signals[0]!;
  const count = () => [
    getEventListeners(removed, 'abort').length,
    getEventListeners(element, 'service-captcha:verified').length,
    getEventListeners(element, 'service-captcha:error').length,
  ];
  const before = count();

  for (const type of ['error', 'verified', 'error']) {
    page.runWidget();
    const outcome = captcha.execute().catch((error) => error.reason as string);
    while (count()[0] === before[0]) await Promise.resolve();
    page.runWidget('token');
    element.dispatchEvent(Object.assign(new Event('service-captcha:' + type), { detail: { reason: 'busy' } }));
    assert.equal(await outcome, type === 'error' ? 'busy' : 'token');
    assert.deepEqual(count(), before, 'listeners after ' + type);
  }
  assert.equal(page.resets, 3);

  page.runWidget();
  const outcome = captcha.execute();
  while (count()[0] === before[0]) await Promise.resolve();
  captcha.remove();
  await assert.rejects(outcome, { name: 'CaptchaError', reason: 'removed' });
  assert.equal(container.children.length, 0);
  define({ AbortController: Original });
});
