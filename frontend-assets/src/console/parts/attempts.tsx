// The attempts of a delivery.
import { dateTime } from '../core/format';
import { t, translated } from '../core/language';
import { Table } from '../core/ui';
import { milliseconds } from './format';
import type { DeliveryFields } from '../operations';
import { Code } from './copy';

/** attemptError returns why an attempt failed in words; unknown codes are shown as they are. */
export const attemptError = (code: string): string => translated('attempt', code, code);

/** Attempts lists the attempts of a delivery with their results. Without an attempt there is no table. */
export function Attempts({ attempts }: { attempts: DeliveryFields['attempts'] }) {
  if (attempts.length === 0) return null;
  return (
    <Table
      label={t('webhooks.attempts')}
      head={[t('webhooks.at'), t('webhooks.duration'), t('webhooks.status'), t('webhooks.outcome'), t('webhooks.answer')]}
    >
      {attempts.map((a) => (
        <tr key={a.at}>
          <th scope="row">
            {dateTime(a.at)}
            {a.manual && <span class="hint"> {t('webhooks.manual')}</span>}
          </th>
          <td class="number">{milliseconds(a.durationMs)}</td>
          <td class="number">{a.status ?? '–'}</td>
          <td>{a.error ? attemptError(a.error) : t('webhooks.state.DELIVERED')}</td>
          <td>{a.answer ? <Code text={a.answer} label={t('webhooks.answer')} /> : '–'}</td>
        </tr>
      ))}
    </Table>
  );
}
