import assert from 'node:assert/strict';
import { define, load, test } from '../harness';
import { readModule, vector } from './vectors';

define({ self: globalThis });

const { serve } = load<typeof import('../../../src/captcha/engine/serve')>('captcha/engine/serve');

type Port = Parameters<typeof serve>[0];

/** Serves a port, and returns a function that sends a request and returns its answer. */
const connect = (): ((request: unknown) => Promise<unknown>) => {
  let answered = (_: unknown) => {};
  const port: Port = { onmessage: null, postMessage: (answer) => answered(answer) };
  serve(port, false);
  return (request) =>
    new Promise((resolve) => {
      answered = resolve;
      port.onmessage!({ data: request } as MessageEvent);
    });
};

const { secrets, nonce, ...challenge } = vector('difficulty 16,384');

test('start, searches and nonce', async () => {
  const send = connect();
  assert.deepEqual(await send({ challenge, module: readModule('captcha.wasm') }), [16, 'wasm']);
  for (const [index, secret] of secrets.entries()) assert.deepEqual(await send(index), [secret, 'wasm']);
  assert.deepEqual(await send(secrets), [nonce, 'wasm']);
});

test('without WebAssembly', async () => {
  const send = connect();
  assert.deepEqual(await send({ challenge }), [16, 'js']);
  assert.deepEqual(await send(0), [secrets[0], 'js']);
});

test('rates are sent during a search, to widgets that understand them', async () => {
  const { performance } = globalThis;
  let now = 0;
  for (const rates of [true, undefined]) {
    const sent: unknown[] = [];
    let answered = () => {};
    const port: Port = {
      onmessage: null,
      postMessage(message) {
        sent.push(message);
        if (Array.isArray(message)) answered();
      },
    };
    serve(port, false);
    const send = (request: unknown) =>
      new Promise<void>((resolve) => {
        answered = resolve;
        port.onmessage!({ data: request } as MessageEvent);
      });
    define({ performance: { now: () => (now += 40) } });
    await send({ challenge, module: readModule('captcha.wasm'), rates });
    await send(secrets.indexOf(Math.max(...secrets)));
    define({ performance });
    assert.deepEqual(
      sent.map((each) => (typeof each === 'number' ? 'rate ' + each : 'answer')),
      rates ? ['answer', 'rate 12.8', 'answer'] : ['answer', 'answer'],
    );
  }
});

test('a malformed challenge has 0 searches', async () =>
  assert.deepEqual(await connect()({ challenge: { ...challenge, challenge: '' } }), [0, 'js']));

test('an internal error is answered with null', async () => {
  const send = connect();
  assert.deepEqual(await send(0), [null, '']);
  await send({ challenge });
  assert.deepEqual(await send(99), [null, 'js']);
});

test('stop has no answer, and ends the search', async () => {
  const send = connect();
  await send({ challenge });
  void send(null).then(() => assert(false, 'stop was answered'));
  assert.deepEqual(await send(0), [-1, 'js']);
});

test('stop before the start does nothing', () => void connect()(null));
