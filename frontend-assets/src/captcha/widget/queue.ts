/** Settles when all earlier work has ended. */
let last: Promise<unknown> = Promise.resolve();

/**
 * Runs the work of the page's widgets one after another, so that a page has one worker pool,
 * however many widgets it has. Work does not start if its signal is aborted before its turn.
 */
export const enqueue = <T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> => {
  const result = last.then(() => {
    if (signal.aborted) throw new DOMException('', 'AbortError');
    return work();
  });
  last = result.catch(() => {});
  return result;
};
