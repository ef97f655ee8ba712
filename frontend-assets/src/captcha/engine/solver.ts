import type { Challenge } from './challenge';
import { page, script, workers } from './crew';
import type { Member } from './crew';
import { divide } from './divide';
import { Unreachable, Unsupported } from './failures';
import { fetchModule } from './module';

export { Unreachable, Unsupported };
export type { Challenge };

/**
 * Finds the nonce of a challenge, in workers or, where the page may have none, in the page itself,
 * a few milliseconds at a time. `api` is the captcha's origin. `onProgress` gets how many of the
 * challenge's equal parts are done, 0 as soon as an engine is there to work on them. Rejects with
 * Unsupported, Unreachable, or an AbortError as soon as the signal says so; then all work has
 * ended.
 */
export const solve = async (
  challenge: Challenge,
  api: string,
  onProgress: (done: number, total: number) => void,
  signal?: AbortSignal,
): Promise<number> => {
  const crew: Member[] = [];
  const disband = () => crew.splice(0).forEach((member) => member.end());
  let abort = () => {};
  const aborted = new Promise<never>((_, reject) => {
    abort = () => reject(new DOMException('', 'AbortError'));
  });

  const work = async (): Promise<number> => {
    const fetched = fetchModule(api);
    const share = async (members: Member[]): Promise<number> => {
      crew.push(...members);
      // The abort came before they were started.
      if (signal?.aborted) disband();
      return divide(members, { challenge, module: await fetched }, onProgress);
    };
    let source: string | undefined;
    try {
      source = await fetchText(api + script);
      return await share(workers(source));
    } catch {
      // No workers, then; and where the page may not fetch, it may still load a script.
      disband();
    }
    const here = await page(api).catch(() => {
      throw source ? new Unsupported() : new Unreachable();
    });
    return share([here]);
  };

  if (signal?.aborted) abort();
  signal?.addEventListener('abort', abort);
  try {
    const nonce = await Promise.race([aborted, work()]);
    if (nonce < 0) throw new Unsupported('the challenge has no answer');
    return nonce;
  } finally {
    signal?.removeEventListener('abort', abort);
    disband();
  }
};

const fetchText = async (url: string): Promise<string> => {
  const response = await fetch(url, { credentials: 'omit' });
  if (!response.ok) throw new Unreachable();
  return response.text();
};
