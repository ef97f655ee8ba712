// Patterns of paths, as the filters of the server read them, and goals that are pages.
import type { SegmentsData } from '../operations';

/** matcherOf returns a function that reports whether a value equals one of values, or matches one of these patterns. */
export function matcherOf(operator: string, values: string[]): (value: string) => boolean {
  if (operator === 'IS') return (value) => values.includes(value);

  const patterns = values.map((pattern) => {
    const source = pattern
      .split(/(\*+)/)
      .map((part) => (part[0] !== '*' ? part.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&') : part === '*' ? '[^/]*' : '.*'))
      .join('');
    return new RegExp(`^${source}$`, 's');
  });
  return (value) => patterns.some((pattern) => pattern.test(value));
}

/** literalOf returns the longest text that each value of a single pattern contains, or null. */
export function literalOf(values: string[]): string | null {
  if (values.length !== 1) return null;
  const parts = values[0]!.split(/\*+/).sort((a, b) => b.length - a.length);
  return parts[0] || null;
}

/** mostPageGoals is the largest number of page goals that are counted, because each takes a report of its own. */
export const mostPageGoals = 10;

/** isPageGoal reports whether a segment is a goal: it has one filter, which keeps visits with some pages. */
export const isPageGoal = ({ filters }: NonNullable<SegmentsData['site']>['segments'][number]): boolean =>
  filters.length === 1 && filters[0]!.dimension === 'PAGE' && /^(IS|MATCHES)$/.test(filters[0]!.operator);
