// Calls that wait for the rate limit.
import type { Failure } from '../core/api';

/**
 * patiently runs a call, and runs it again each time that a rate limit refuses it, once the seconds have passed
 * that the server names. onWait gets them, and 0 before the call is run again. An abort of signal ends the wait.
 */
export async function patiently<T>(
  call: () => Promise<T>,
  onWait: (seconds: number) => void,
  signal: AbortSignal,
): Promise<T> {
  for (;;) {
    try {
      return await call();
    } catch (error) {
      const { code, retryAfter: seconds = 1 } = error as Failure;
      if (code !== 'RATE_LIMITED') throw error;

      onWait(seconds);
      signal.throwIfAborted();
      await new Promise<void>((resolve, reject) => {
        // A caller that is early is refused for longer.
        setTimeout(resolve, seconds * 1000 + 300);
        signal.addEventListener('abort', () => reject(signal.reason));
      });
      onWait(0);
    }
  }
}
