import assert from 'node:assert/strict';
import { define, load, table, test } from '../harness';

const { request } = load<typeof import('../../../src/captcha/request')>('captcha/request');

/** What a call by XMLHttpRequest was given, and how it ends. */
let call: { method: string; url: string; body: unknown; aborted: boolean; end: (status: number) => void };
let headers = '';

const withXMLHttpRequest = (fetch: unknown) =>
  define({
    fetch,
    XMLHttpRequest: class {
      status = 0;
      response = new TextEncoder().encode('{"token":"t"}').buffer;
      onloadend = () => {};
      open(method: string, url: string) {
        const end = (status: number) => {
          this.status = status;
          this.onloadend();
        };
        call = { method, url, body: undefined, aborted: false, end };
      }
      send(body: unknown) {
        call.body = body;
      }
      abort() {
        call.aborted = true;
        call.end(0);
      }
      getAllResponseHeaders = () => headers;
    },
  });

// What pages put in the place of fetch.
table(
  'XMLHttpRequest instead of',
  {
    'a function of the page': () => assert(false, 'called'),
    'an async function': async () => assert(false, 'called'),
    'a bound function': (() => assert(false, 'called')).bind(null),
    'a proxy': new Proxy(() => assert(false, 'called'), {}),
    'no fetch': undefined,
    'an object': {},
  } as Record<string, unknown>,
  async (fetch) => {
    withXMLHttpRequest(fetch);
    headers = 'content-type: application/json\r\nRetry-After: 3\r\n';
    const answer = request('http://c.test/x', '{"a":1}', new AbortController().signal);
    assert.deepEqual([call.method, call.url, call.body], ['POST', 'http://c.test/x', '{"a":1}']);
    call.end(429);
    const response = await answer;
    assert.deepEqual([response.status, response.headers.get('retry-after')], [429, '3']);
    assert.deepEqual(await response.json(), { token: 't' });
  },
);

test('a file is fetched by GET, without a body', async () => {
  withXMLHttpRequest(undefined);
  headers = 'content-type: application/wasm\r\n';
  const answer = request('http://c.test/captcha.wasm');
  assert.deepEqual([call.method, call.body], ['GET', null]);
  call.end(200);
  const response = await answer;
  assert.equal((await response.arrayBuffer()).byteLength, 13);
  assert.equal(response.headers.get('retry-after'), null);
});

test('a call without a response is rejected', async () => {
  withXMLHttpRequest(undefined);
  const answer = request('http://c.test/x');
  call.end(0);
  await assert.rejects(answer);
});

table(
  'an aborted call is rejected',
  { before: (c: AbortController) => c.abort(), meanwhile: () => {} },
  async (before) => {
    withXMLHttpRequest(undefined);
    const controller = new AbortController();
    before(controller);
    const answer = request('http://c.test/x', '', controller.signal);
    controller.abort();
    await assert.rejects(answer);
    assert(call.aborted);
  },
);
