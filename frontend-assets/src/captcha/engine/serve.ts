import { foldSecrets, readChallenge } from './challenge';
import type { Task } from './challenge';
import { newFinder } from './engine';
import type { Finder } from './engine';
import type { Port, Request } from './protocol';

/** Answers the requests that arrive at a port. */
export const serve = (port: Port, yields: boolean): void => {
  let task: Task;
  let finder: Finder | undefined;

  const answer = async (request: Exclude<Request, null>): Promise<number> => {
    if (typeof request === 'number') return finder!.find(request);
    if (Array.isArray(request)) return foldSecrets(task.seed, request);
    task = readChallenge(request.challenge);
    const onRate = request.rates && ((rate: number) => port.postMessage(rate));
    finder = await newFinder(task, request.module, yields, onRate);
    return task.targets.length;
  };

  port.onmessage = async (event: MessageEvent<Request>) => {
    const request = event.data;
    if (request === null) return finder?.stop();
    const result = await answer(request).catch(() => null);
    port.postMessage([result, finder ? finder.name() : '']);
  };
};
