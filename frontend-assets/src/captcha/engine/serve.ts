import { fold, read } from './challenge';
import type { Task } from './challenge';
import { finder } from './engine';
import type { Finder } from './engine';
import type { Port, Request } from './protocol';

/** Answers the requests that come through a port. */
export const serve = (port: Port, yields: boolean): void => {
  let task: Task;
  let work: Finder | undefined;

  const answer = async (request: Exclude<Request, null>): Promise<number> => {
    if (typeof request === 'number') return work!.find(request);
    if (Array.isArray(request)) return fold(task.seed, request);
    task = read(request.challenge);
    work = await finder(task, request.module, yields);
    return task.targets.length;
  };

  port.onmessage = async (event: MessageEvent<Request>) => {
    const request = event.data;
    if (request === null) return work?.stop();
    const result = await answer(request).catch(() => null);
    port.postMessage([result, work ? work.name() : '']);
  };
};
