// Rejected and ignored calls by their codes.
import { translated } from '../core/language';
import type { RejectionFields } from '../operations';

type CodeSum = { code: string; count: number; advice: string; recorded: boolean };

/** byCode adds up the calls of each code, the most frequent first: those that need attention, or those ignored on purpose. */
export function byCode(list: RejectionFields[], ignored = false): CodeSum[] {
  const sums = new Map<string, CodeSum>();
  for (const r of list) {
    if (r.ignored !== ignored) continue;
    const sum = sums.get(r.code) ?? {
      code: r.code,
      count: 0,
      advice: translated('advice', r.code, r.advice),
      recorded: r.recorded,
    };
    sum.count += r.count;
    sums.set(r.code, sum);
  }
  return [...sums.values()].sort((a, b) => b.count - a.count);
}
