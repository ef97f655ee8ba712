/** Settles when the work before it has ended. */
let last: Promise<unknown> = Promise.resolve();

/**
 * Runs the work of the page's widgets one after another, so that a page has one crew of workers,
 * however many widgets it has. Work whose signal is aborted before its turn is not begun.
 */
export const inTurn = <T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> => {
  const turn = last.then(() => {
    if (signal.aborted) throw new DOMException('', 'AbortError');
    return work();
  });
  last = turn.catch(() => {});
  return turn;
};
