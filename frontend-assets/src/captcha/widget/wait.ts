/** Milliseconds up to which a wait is not shown. */
const short = 8000;
/** Ratio to the shown wait above which a longer wait replaces it. */
const rise = 1.5;

/**
 * Returns the seconds to show for an expected wait in milliseconds, or 0 for none. The seconds are a
 * multiple of five, which needs no singular in any language. `shown` is the last result. Estimates
 * vary, so it rises only with a clearly longer wait, also from 0 if a wait was shown `before`.
 */
export const secondsToShow = (wait: number, shown: number, before: boolean): number => {
  const seconds = wait > short ? Math.round(wait / 5000) * 5 : 0;
  const least = before ? (shown * 1000 || short) * rise : short;
  return seconds < shown || wait > least ? seconds : shown;
};
