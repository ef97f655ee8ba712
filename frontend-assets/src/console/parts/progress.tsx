// The state of a long task.
import { t } from '../core/language';
import { useCountdown } from '../core/states';

/** Progress shows how far a long task is, how long it waits for a rate limit, and a button that stops it. */
export function Progress({ text, wait, stop }: { text: string; wait: number; stop(): void }) {
  const left = useCountdown(wait, wait);
  return (
    <span class="inline">
      <span role="status">{text} {wait > 0 && t('state.limited')}</span>
      {left > 0 && <span aria-hidden="true">{t('state.continues', { n: left })}</span>}
      <button type="button" class="small" onClick={stop}>{t('state.stop')}</button>
    </span>
  );
}
