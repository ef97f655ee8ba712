// One channel: its settings, and its messages with their attempts.
import { useEffect, useState } from 'preact/hooks';
import type { UserError } from '../core/api';
import { usePolling } from '../core/data';
import { Action, Dialog } from '../core/dialog';
import { exact } from '../core/format';
import { languages, t, type TextKey } from '../core/language';
import { announce, mayEdit } from '../core/store';
import { Section, Time } from '../core/ui';
import {
  alertMessage,
  alertMessages,
  deleteAlertChannel,
  redeliverAlertMessage,
  sendTestAlert,
  type AlertChannelFields,
  type AlertMessageFields,
  type AlertMessagePage,
} from '../operations';
import { Ask } from '../parts/ask';
import { Attempts, attemptError } from '../parts/attempts';
import { Secret } from '../parts/copy';
import { clock, EditChannel, type Owner } from './form';

/** textOf returns the text of a word of the API, or the word itself if the console does not know it. */
function textOf(group: 'event' | 'phase', word: string): string {
  const key = `alerts.${group}.${group === 'event' ? word.toUpperCase() : word}`;
  const text = t(key as TextKey);
  return text === key ? word : text;
}

/** wishesOf returns what a channel wants as a text. */
export const wishesOf = ({ events, weekly, monthly, spikeAbove, dropBelow }: AlertChannelFields): string =>
  [
    ...events.map((event) => t(`alerts.event.${event}`)),
    ...(weekly ? [t('alerts.weekly')] : []),
    ...(monthly ? [t('alerts.monthly')] : []),
    ...(spikeAbove ? [t('alerts.above', { n: exact(spikeAbove) })] : []),
    ...(dropBelow ? [t('alerts.below', { n: exact(dropBelow) })] : []),
  ].join(', ') || t('alerts.noEvents');

/** Channel shows a channel, changes and deletes it, and sends it a test. */
export function Channel(props: {
  channel: AlertChannelFields;
  owner: Owner;
  reload(): Promise<void>;
  removed(): Promise<void>;
}) {
  const { channel, owner, reload, removed } = props;
  const { id, name, state, stopReason, quietHours: quiet } = channel;
  const [page, setPage] = useState<AlertMessagePage>(channel.messages);
  const [editing, setEditing] = useState(false);
  const [secret, setSecret] = useState('');
  useEffect(() => setPage(channel.messages), [channel]);

  const put = (message: AlertMessageFields): void =>
    setPage((before) => {
      const known = before.nodes.some((m) => m.id === message.id);
      const nodes = known ? before.nodes.map((m) => (m.id === message.id ? message : m)) : [message, ...before.nodes];
      return { ...before, nodes };
    });

  // Messages that wait for a later attempt need no polling until it is due.
  const pending = page.nodes
    .filter((m) => m.state === 'PENDING' && Date.parse(m.nextAttemptAt ?? '') - Date.now() < 60_000)
    .slice(0, 5);
  usePolling(
    async () => {
      for (const { id } of pending) {
        const next = (await alertMessage({ id })).node as AlertMessageFields | null;
        if (!next) continue;
        put(next);
        if (next.state === 'PENDING') continue;

        announce(t('webhooks.result', { event: name, state: t(`webhooks.state.${next.state}`) }));
        // A test can resume a channel, and an answer can stop it.
        if ((next.state === 'FAILED') === (state === 'ACTIVE')) await reload();
      }
    },
    pending.length > 0 ? 1500 : 0,
  );

  const more = async (): Promise<void> => {
    const next = (await alertMessages({ id, after: page.pageInfo.endCursor })).node as { messages: AlertMessagePage } | null;
    if (next) setPage({ ...next.messages, nodes: [...page.nodes, ...next.messages.nodes] });
  };
  const test = async (): Promise<UserError[]> => {
    const payload = (await sendTestAlert({ input: { alertChannelId: id } })).sendTestAlert;
    if (payload?.alertMessage) {
      put(payload.alertMessage);
      announce(t('alerts.tested', { name }));
    }
    return payload?.userErrors ?? [];
  };
  const remove = async (): Promise<UserError[]> => {
    const errors = (await deleteAlertChannel({ input: { alertChannelId: id } })).deleteAlertChannel?.userErrors ?? [];
    if (errors.length === 0) await removed();
    return errors;
  };
  const saved = async (secret: string): Promise<void> => {
    await reload();
    setEditing(false);
    setSecret(secret);
    announce(t('saved'));
  };

  const facts: [name: string, text: string][] = [
    [t(`alerts.kind.${channel.kind}`), channel.target],
    [t('footer.language'), languages[channel.language.toLowerCase()] ?? channel.language],
    ...(channel.kind === 'WEBHOOK' ? [[t('alerts.secret'), t(channel.signed ? 'alerts.signed' : 'alerts.secretNone')] as [string, string]] : []),
    ...(quiet ? [[t('alerts.quiet'), `${clock(quiet.from)} – ${clock(quiet.to)} (${quiet.timeZone})`] as [string, string]] : []),
    [t('alerts.events'), wishesOf(channel)],
  ];
  const waits = state === 'UNCONFIRMED';
  return (
    <Section title={name}>
      <p>
        <span class={'state ' + (state === 'STOPPED' ? 'FAILED' : waits ? '' : 'DELIVERED')}>{t(`alerts.state.${state}`)}</span>
      </p>
      {secret && <Secret text={secret} label={t('alerts.newSecret')} onDone={() => setSecret('')} />}
      {waits && <p class="notice">{t('alerts.unconfirmed')}</p>}
      {state === 'STOPPED' && (
        <p class="notice">{t(stopReason === 'recipient' ? 'alerts.stoppedByRecipient' : 'alerts.stoppedGone')}</p>
      )}
      <dl class="facts">
        {facts.map(([name, text]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{text}</dd>
          </div>
        ))}
      </dl>
      {page.nodes.length > 0 && (
        <ul class="deliveries" aria-label={t('alerts.messages', { name })}>
          {page.nodes.map((message) => (
            <Message key={message.id} message={message} put={put} />
          ))}
        </ul>
      )}
      {page.pageInfo.hasNextPage && (
        <p>
          <Action run={more}>{t('list.more')}</Action>
        </p>
      )}
      {mayEdit() && (
        <div class="actions">
          {!waits && stopReason !== 'recipient' && (
            <Action run={test} label={t('alerts.testNamed', { name })}>{t('alerts.test')}</Action>
          )}
          <button type="button" class="small" aria-label={t('alerts.editNamed', { name })} onClick={() => setEditing(true)}>
            {t('alerts.edit')}
          </button>
          <Ask button={t('alerts.delete')} label={t('alerts.deleteNamed', { name })} text={t('alerts.deleteText')} danger run={remove} />
        </div>
      )}
      {editing && (
        <Dialog title={t('alerts.editNamed', { name })} onClose={() => setEditing(false)}>
          <EditChannel channel={channel} owner={owner} saved={saved} />
        </Dialog>
      )}
    </Section>
  );
}

/** Message shows a message with its attempts, and sends it again. */
function Message({ message, put }: { message: AlertMessageFields; put(message: AlertMessageFields): void }) {
  const { state, attempts } = message;
  const again = async (): Promise<UserError[]> => {
    const payload = (await redeliverAlertMessage({ input: { alertMessageId: message.id } })).redeliverAlertMessage;
    if (payload?.alertMessage) put(payload.alertMessage);
    return payload?.userErrors ?? [];
  };
  const last = attempts[attempts.length - 1];
  const phase = message.phase === 'once' ? '' : ` (${textOf('phase', message.phase)})`;
  return (
    <li>
      <details>
        <summary>
          <span class={'state ' + state}>{t(`webhooks.state.${state}`)}</span> {textOf('event', message.event)}
          {phase}{' '}
          <span class="hint">
            {message.title}, <Time at={message.createdAt} />
            {last?.error && state !== 'DELIVERED' && <>, {attemptError(last.error)}</>}
          </span>
        </summary>
        <Attempts attempts={attempts} />
        <p class="actions">
          {state === 'PENDING' && message.nextAttemptAt && (
            <span>
              {t('webhooks.next')} <Time at={message.nextAttemptAt} />
            </span>
          )}
          {mayEdit() && <Action run={again}>{t('webhooks.again')}</Action>}
        </p>
      </details>
    </li>
  );
}
