// What the unit tests share: tables of cases, fresh copies of source modules, and stand-ins for the
// browser's globals.
import { webcrypto } from 'node:crypto';
import { test as nodeTest } from 'node:test';

/** Path of the test file below test/unit, which Node runs in a process of its own. */
const file = require.main.filename.replace(/\\/g, '/').replace(/^.*\/test\/unit\/|\.test\.js$/g, '');

/** Runs a test. Its full name begins with the file, because Node reports only the caller's, this one. */
export const test = (name: string, run: () => void | Promise<void>): void => nodeTest(file + '/' + name, run);

/** Runs a check for each row of a table, as a test of its own, named after the row's key. */
export const table = <Row>(
  what: string,
  rows: Record<string, Row>,
  check: (row: Row, name: string) => void | Promise<void>,
): void => {
  for (const [name, row] of Object.entries(rows)) test(`${what}: ${name}`, () => check(row, name));
};

/** Defines globals. Unlike assignment, this also replaces those that Node defines as getters. */
export const define = (globals: Record<string, unknown>): void => {
  for (const [name, value] of Object.entries(globals)) {
    Object.defineProperty(globalThis, name, { value, configurable: true, writable: true });
  }
};

/**
 * Loads a source module by its path below src, together with what it imports, in their initial
 * state: modules read the page when they are first loaded.
 */
export const load = <Module>(path: string): Module => {
  forget();
  return loadSame<Module>(path);
};

/** Loads a source module that shares its state with the modules of the last load. */
export const loadSame = <Module>(path: string): Module => require('../../src/' + path) as Module;

const forget = (): void => {
  for (const file of Object.keys(require.cache))
    if (/\/(src|packages)\//.test(file.replace(/\\/g, '/'))) delete require.cache[file];
};

const browsers = new WeakSet<Function>();
const text = Function.prototype.toString;
Function.prototype.toString = function () {
  return browsers.has(this) ? 'function fetch() { [native code] }' : text.call(this);
};

/** Makes a function pass for the browser's own fetch. */
export const browserFetch = <F extends Function>(f: F): F => {
  browsers.add(f);
  return f;
};

class ScriptElement {
  constructor(
    public src: string,
    readonly dataset: Record<string, string>,
  ) {}
}

/** A message that the script has sent, with the API that it used. */
export interface Sent {
  by: 'fetch' | 'beacon' | 'request' | 'page';
  url: string;
  body: Record<string, unknown>;
}

/** The page that the script runs in. Tests change its fields while it runs. */
export interface FakePage {
  sent: Sent[];
  /** Lines of the console, by level. */
  console: string[];
  /** Milliseconds of performance.now(). */
  now: number;
  window: EventTarget & Record<string, any>;
  document: EventTarget & Record<string, any>;
  location: URL;
  history: Record<string, any>;
  /** What the script has sent since the last call: the values of one key. */
  take(key: string): unknown[];
}

export interface PageOptions {
  url?: string;
  referrer?: string;
  /** The tag's data attributes; null for a page without a tag. */
  dataset?: Record<string, string> | null;
  /** The tag's src as the browser resolves it. */
  src?: string;
  navigator?: Record<string, unknown>;
  window?: Record<string, unknown>;
  document?: Record<string, unknown>;
  /** The browser's vendor. The default is Chromium's; Firefox has none. */
  vendor?: string;
  /** Whether fetch supports keepalive, as in all current browsers. */
  keepalive?: boolean;
  /** The result of sendBeacon. */
  beacon?: boolean;
  /** Whether the page has replaced fetch. */
  replaced?: boolean;
  /** Whether fetch answers. Otherwise its request stays in flight. */
  answering?: boolean;
}

export const siteKey = '0123456789abcdef0123456789abcdef';

/** Replaces the browser's globals by those of a page with the script's tag. */
export const openPage = (options: PageOptions = {}): FakePage => {
  const { url = 'http://shop.test/', vendor = 'Google Inc.', keepalive = true, beacon = true, answering = true } = options;
  const dataset = options.dataset === undefined ? { site: siteKey } : options.dataset;
  const script = dataset && new ScriptElement(options.src ?? 'http://data.test/svc.js', dataset);
  const page: FakePage = {
    sent: [],
    console: [],
    now: 5,
    window: Object.assign(new EventTarget(), options.window),
    document: Object.assign(new EventTarget(), {
      currentScript: script,
      querySelectorAll: () => [new ScriptElement('http://other.test/a.js', { site: 'x' }), script],
      referrer: options.referrer || '',
      baseURI: url,
      hidden: false,
      scrollingElement: { scrollTop: 0, clientHeight: 100, scrollHeight: 1000 },
      ...options.document,
    }),
    location: new URL(url),
    history: {},
    take(key) {
      return page.sent.splice(0).map((each) => each.body[key]);
    },
  };
  const navigate = (_state: unknown, _title: string, to?: string) => {
    if (to !== undefined) page.location.href = new URL(to, page.location.href).href;
  };
  page.history.pushState = navigate;
  page.history.replaceState = navigate;

  const record = (by: Sent['by'], to: unknown, body: string) =>
    page.sent.push({ by, url: String(to), body: JSON.parse(body) });
  const log =
    (level: string) =>
    (...values: unknown[]) =>
      void page.console.push([level, ...values].join(' '));
  define({
    window: page.window,
    document: page.document,
    location: page.location,
    history: page.history,
    console: { ...console, log: log('log'), warn: log('warn'), error: log('error') },
    performance: { now: () => page.now },
    screen: { width: 1440 },
    crypto: webcrypto,
    HTMLScriptElement: ScriptElement,
    Request: class {
      static {
        if (keepalive) Object.defineProperty(this.prototype, 'keepalive', { get: () => true });
      }
    },
    navigator: {
      language: 'en-GB',
      vendor,
      sendBeacon(to: unknown, body: string) {
        if (beacon) record('beacon', to, body);
        return beacon;
      },
      ...options.navigator,
    },
    fetch: options.replaced
      ? (to: unknown, request: { body: string }) => void record('page', to, request.body)
      : browserFetch(async (to: unknown, request: { body: string }) => {
          record('fetch', to, request.body);
          if (!answering) await new Promise(() => {});
          return { status: 204, text: async () => '' };
        }),
    XMLHttpRequest: class {
      status = 204;
      responseText = '';
      private to: unknown;
      open(_method: string, to: unknown) {
        this.to = to;
      }
      send(body: string) {
        record('request', this.to, body);
      }
    },
  });
  return page;
};
