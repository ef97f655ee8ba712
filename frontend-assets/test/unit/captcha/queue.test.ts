import assert from 'node:assert/strict';
import { load, test } from '../harness';

type Queue = typeof import('../../../src/captcha/widget/queue');

const newSignal = (): AbortSignal => new AbortController().signal;

test('work runs one after another', async () => {
  const { enqueue } = load<Queue>('captcha/widget/queue');
  const events: string[] = [];
  const work = (name: string) => async () => {
    events.push('start ' + name);
    await new Promise((resolve) => setTimeout(resolve, 1));
    events.push('end ' + name);
    return name;
  };
  assert.deepEqual(await Promise.all([enqueue(newSignal(), work('a')), enqueue(newSignal(), work('b'))]), ['a', 'b']);
  assert.deepEqual(events, ['start a', 'end a', 'start b', 'end b']);
});

test('a failure delays no other work', async () => {
  const { enqueue } = load<Queue>('captcha/widget/queue');
  const failed = enqueue(newSignal(), () => Promise.reject(new Error('no')));
  const next = enqueue(newSignal(), async () => 'next');
  await assert.rejects(failed, { message: 'no' });
  assert.equal(await next, 'next');
});

test('work aborted before its turn does not start', async () => {
  const { enqueue } = load<Queue>('captcha/widget/queue');
  const controller = new AbortController();
  let release = () => {};
  const first = enqueue(newSignal(), () => new Promise<void>((resolve) => (release = resolve)));
  const aborted = enqueue(controller.signal, async () => assert(false, 'started'));
  const last = enqueue(newSignal(), async () => 'last');
  await Promise.resolve();
  controller.abort();
  release();
  await first;
  await assert.rejects(aborted, { name: 'AbortError' });
  assert.equal(await last, 'last');
});
