// Deliveries and messages with their attempts.
import type { ComponentChildren } from 'preact';
import type { UserError } from '../core/api';
import { usePolling } from '../core/data';
import { Action } from '../core/dialog';
import { dateTime } from '../core/format';
import { t, translated } from '../core/language';
import { Table, Time } from '../core/ui';
import { milliseconds } from './format';
import type { DeliveryFields } from '../operations';
import { Code } from './copy';

/** attemptError returns why an attempt failed in words; unknown codes are shown as they are. */
const attemptError = (code: string): string => translated('attempt', code, code);

/** Attempts lists the attempts of a delivery with their results. Without an attempt there is no table. */
function Attempts({ attempts }: { attempts: DeliveryFields['attempts'] }) {
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

/** Sent is a delivery or a message. */
type Sent = Pick<DeliveryFields, 'id' | 'createdAt' | 'nextAttemptAt' | 'attempts'> & { state: 'PENDING' | 'WAITING' | 'DELIVERED' | 'FAILED' };

/** usePending reads again what is in progress, until it has ended. What waits for a later attempt is not read until that is due. */
export function usePending<T extends Sent>(list: T[], read: (id: string) => Promise<T | null>, put: (one: T) => void, ended: (one: T) => unknown): void {
  const pending = list.filter((d) => d.state === 'PENDING' && Date.parse(d.nextAttemptAt ?? '') - Date.now() < 60_000).slice(0, 5);
  usePolling(
    async () => {
      for (const { id } of pending) {
        const next = await read(id);
        if (next) put(next);
        if (next && next.state !== 'PENDING') await ended(next);
      }
    },
    pending.length > 0 ? 1500 : 0,
  );
}

/** Delivery is a line of a list, which opens what was sent and its attempts. */
export function Delivery(props: {
  of: Sent;
  name: ComponentChildren;
  text: ComponentChildren;
  again: false | (() => Promise<UserError[]>);
  children?: ComponentChildren;
}) {
  const { state, attempts, createdAt, nextAttemptAt } = props.of;
  const last = attempts[attempts.length - 1];
  return (
    <li>
      <details>
        <summary>
          <span class={'state ' + state}>{t(`webhooks.state.${state}`)}</span> {props.name}{' '}
          <span class="hint">
            {props.text}, <Time at={createdAt} />
            {last?.error && state !== 'DELIVERED' && <>, {attemptError(last.error)}</>}
          </span>
        </summary>
        {props.children}
        <Attempts attempts={attempts} />
        <p class="actions">
          {state === 'PENDING' && nextAttemptAt && <span>{t('webhooks.next')} <Time at={nextAttemptAt} /></span>}
          {props.again && <Action run={props.again}>{t('webhooks.again')}</Action>}
        </p>
      </details>
    </li>
  );
}
