// Amounts and durations, which the first view has none of.
import { decimal, exact } from '../core/format';
import { locale } from '../core/language';

/** milliseconds writes a duration: "340 ms", "2.5 s". */
export function milliseconds(ms: number): string {
  return ms < 1000 ? `${exact(ms)} ms` : `${decimal(Math.round(ms / 100) / 10)} s`;
}

/** money writes an exact decimal of a currency. Unknown currencies keep their code. */
export function money(amount: string, currency: string): string {
  const style = { style: 'currency', currency } as const;
  try {
    return new Intl.NumberFormat(locale(), style).format(amount as never);
  } catch {
    return `${amount} ${currency}`;
  }
}
