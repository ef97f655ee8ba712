// One channel: its settings, and its messages with their attempts.
import { useEffect, useState } from 'preact/hooks';
import type { UserError } from '../core/api';
import { Action } from '../core/dialog';
import { t, type TextKey } from '../core/language';
import { announce, mayEdit } from '../core/store';
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
import { Delivery, usePending } from '../parts/attempts';
import { Secret } from '../parts/copy';
import { forms, LoadedForms } from './loadedforms';
import { KindIcon, quietText, wishesOf, type Owner } from './wishes';

/** textOf returns the text of a word of the API, or the word itself if the console does not know it. */
function textOf(group: 'event' | 'phase', word: string): string {
  const key = `alerts.${group}.${group === 'event' ? word.toUpperCase() : word}`;
  const text = t(key as TextKey);
  return text === key ? word : text;
}

/** Channel shows a channel, changes and deletes it, and sends it a test. */
export function Channel(props: {
  channel: AlertChannelFields;
  owner: Owner;
  reload(): Promise<void>;
  removed(): Promise<void>;
}) {
  const { channel, owner, reload, removed } = props;
  const { id, name, kind, state, stopReason, quietHours } = channel;
  const [page, setPage] = useState<AlertMessagePage>(channel.messages);
  const [tested, setTested] = useState(false);
  const [secret, setSecret] = useState('');
  useEffect(() => setPage(channel.messages), [channel]);

  const put = (message: AlertMessageFields): void =>
    setPage((before) => {
      const known = before.nodes.some((m) => m.id === message.id);
      const nodes = known ? before.nodes.map((m) => (m.id === message.id ? message : m)) : [message, ...before.nodes];
      return { ...before, nodes };
    });

  usePending(
    page.nodes,
    async (id) => (await alertMessage({ id })).node as AlertMessageFields | null,
    put,
    async (next) => {
      announce(t('webhooks.result', { event: name, state: t(`webhooks.state.${next.state}`) }));
      // A test can resume a channel, and an answer can stop it.
      if ((next.state === 'FAILED') === (state === 'ACTIVE')) await reload();
    },
  );

  const more = async (): Promise<void> => {
    const next = (await alertMessages({ id, after: page.pageInfo.endCursor })).node as { messages: AlertMessagePage } | null;
    if (next) setPage({ ...next.messages, nodes: [...page.nodes, ...next.messages.nodes] });
  };
  const test = async (): Promise<UserError[]> => {
    const payload = (await sendTestAlert({ input: { alertChannelId: id } })).sendTestAlert;
    if (payload?.alertMessage) {
      put(payload.alertMessage);
      setTested(true);
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
    setSecret(secret);
    announce(t('saved'));
  };

  const waits = state === 'UNCONFIRMED';
  return (
    <li>
      <KindIcon kind={kind} />
      <div>
        <strong>{name}</strong>{' '}
        <span class={'state ' + (state === 'STOPPED' ? 'FAILED' : waits ? '' : 'DELIVERED')}>{t(`alerts.state.${state}`)}</span>
        <p class="hint path">
          {t(`alerts.kind.${kind}`)} · {channel.target}
          {kind === 'WEBHOOK' && ` · ${t(channel.signed ? 'alerts.signed' : 'alerts.secretNone')}`}
        </p>
        <p>{wishesOf(channel)}</p>
        {quietHours && <p class="hint">{t('alerts.quiet')}: {quietText(quietHours)}</p>}
        {secret && <Secret text={secret} label={t('alerts.newSecret')} onDone={() => setSecret('')} />}
        {state !== 'ACTIVE' && (
          <p class={waits ? 'hint' : 'error'}>
            {t(waits ? 'alerts.unconfirmed' : stopReason === 'recipient' ? 'alerts.stoppedByRecipient' : 'alerts.stoppedGone')}
          </p>
        )}
        {page.nodes.length > 0 && (
          <details open={tested}>
            <summary>{t('alerts.messages')}</summary>
            <ul class="deliveries" aria-label={t('alerts.messagesTo', { name })}>
              {page.nodes.map((message) => (
                <Message key={message.id} message={message} put={put} />
              ))}
            </ul>
            {page.pageInfo.hasNextPage && <Action run={more}>{t('list.more')}</Action>}
          </details>
        )}
      </div>
      {mayEdit() && (
        <details
          class="menu"
          onFocusOut={(e) => {
            if (e.relatedTarget instanceof Node && !e.currentTarget.contains(e.relatedTarget)) e.currentTarget.open = false;
          }}
        >
          <summary aria-label={t('alerts.actions', { name })}>⋯</summary>
          <div>
            {!waits && stopReason !== 'recipient' && (
              <Action run={test} label={t('alerts.testNamed', { name })}>{t('alerts.test')}</Action>
            )}
            <Ask
              button={t('alerts.edit')}
              label={t('alerts.editNamed', { name })}
              submit={t('save')}
              run={async (...sent) => (await forms()).saveChannel(...sent, owner, channel, saved)}
            >
              <LoadedForms>{({ ChannelFields }) => <ChannelFields channel={channel} owner={owner} />}</LoadedForms>
            </Ask>
            <Ask button={t('alerts.delete')} label={t('alerts.deleteNamed', { name })} text={t('alerts.deleteText')} danger run={remove} />
          </div>
        </details>
      )}
    </li>
  );
}

/** Message shows a message with its attempts, and sends it again. */
function Message({ message, put }: { message: AlertMessageFields; put(message: AlertMessageFields): void }) {
  const again = async (): Promise<UserError[]> => {
    const payload = (await redeliverAlertMessage({ input: { alertMessageId: message.id } })).redeliverAlertMessage;
    if (payload?.alertMessage) put(payload.alertMessage);
    return payload?.userErrors ?? [];
  };
  const phase = message.phase === 'once' ? '' : ` (${textOf('phase', message.phase)})`;
  return <Delivery of={message} name={textOf('event', message.event) + phase} text={message.title} again={mayEdit() && again} />;
}
