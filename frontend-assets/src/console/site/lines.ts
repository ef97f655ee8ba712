// Lists that are typed as lines, and the lines of their errors.
import type { UserError } from '../core/api';
import { t, translated } from '../core/language';

/** Line is an entry of a list with the number of its line. */
interface Line {
  n: number;
  text: string;
}

/** linesOf returns the entries of a text. Entries of the same line are separated by a pattern. */
export const linesOf = (text = '', between = /\n/): Line[] =>
  text.split('\n').flatMap((line, i) =>
    line
      .split(between)
      .filter((entry) => entry.trim())
      .map((entry) => ({ n: i + 1, text: entry.trim() })),
  );

/** inLine adds its line to the error of an entry. */
export function inLine(error: UserError, lines: Line[]): UserError {
  const line = lines[Number(error.field?.[2])];
  if (!line) return error;

  const text = translated('error', error.code, error.message);
  return { ...error, code: '', message: t('settings.inLine', { n: line.n, entry: line.text, error: text }) };
}
