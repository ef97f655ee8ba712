import { request } from '../request';
import type { Challenge } from './challenge';
import { Unreachable, Unsupported } from './failures';
import { fetchModule } from './module';
import { startInPage, startWorkers, workerScript } from './pool';
import type { Member } from './pool';
import { splitWork } from './split';

export { Unreachable, Unsupported };
export type { Challenge };

/**
 * Finds the nonce of a challenge in a pool of workers or, where the page must not have workers, in
 * the page itself, a few milliseconds at a time. `api` is {captcha_url}. `onProgress` gets the
 * number of searches done, beginning with 0 when an engine is ready, and `onWait` the milliseconds
 * that the rest is expected to take. The promise rejects with Unsupported, Unreachable, or an
 * AbortError as soon as the signal is aborted. By then all workers have ended.
 */
export const solve = async (
  challenge: Challenge,
  api: string,
  onProgress: (done: number, total: number) => void,
  signal?: AbortSignal,
  onWait: (wait: number) => void = () => {},
): Promise<number> => {
  const pool: Member[] = [];
  const endPool = () => pool.splice(0).forEach((member) => member.end());
  let abort = () => {};
  const aborted = new Promise<never>((_, reject) => {
    abort = () => reject(new DOMException('', 'AbortError'));
  });

  const work = async (): Promise<number> => {
    const fetched = fetchModule(api);
    const workIn = async (members: Member[]): Promise<number> => {
      pool.push(...members);
      // The signal may have been aborted before the members were started.
      if (signal?.aborted) endPool();
      return splitWork(members, { challenge, module: await fetched, rates: true }, onProgress, onWait);
    };
    let source: string | undefined;
    try {
      source = await fetchText(api + workerScript);
      return await workIn(startWorkers(source));
    } catch {
      // The page must not have workers. Where it must not fetch either, it may still load a script.
      endPool();
    }
    const member = await startInPage(api).catch(() => {
      throw source ? new Unsupported() : new Unreachable();
    });
    return workIn([member]);
  };

  if (signal?.aborted) abort();
  signal?.addEventListener('abort', abort);
  try {
    const nonce = await Promise.race([aborted, work()]);
    if (nonce < 0) throw new Unsupported('the challenge has no answer');
    return nonce;
  } finally {
    signal?.removeEventListener('abort', abort);
    endPool();
  }
};

const fetchText = async (url: string): Promise<string> => {
  const response = await request(url);
  if (!response.ok) throw new Unreachable();
  return response.text();
};
