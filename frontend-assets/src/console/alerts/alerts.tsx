// Channels that get alerts: a list with the latest messages, and a form for another one.
import { useState } from 'preact/hooks';
import type { UserError } from '../core/api';
import { useQuery } from '../core/data';
import { Check, Field, Form, Select, type Values } from '../core/form';
import { language, t } from '../core/language';
import { Empty, Loaded, Missing } from '../core/states';
import { announce, chosenAccount, mayEdit } from '../core/store';
import { Section, Table, Time, Title } from '../core/ui';
import {
  accountAlerts,
  createAlertChannel,
  createSiteAlertChannel,
  deleteAlertChannel,
  sendTestAlert,
  siteAlerts,
  type AlertChannelFields,
  type AlertChannelKind,
  type AlertEvent,
} from '../operations';
import { Ask } from '../parts/ask';
import { SettingsPage } from '../parts/settings';

const kinds: AlertChannelKind[] = ['EMAIL', 'SLACK', 'DISCORD', 'TEAMS', 'WEBHOOK'];

/** siteEvents are the events about one site; a channel of the account can want others as well. */
const siteEvents: AlertEvent[] = ['TRAFFIC_SPIKE', 'TRAFFIC_DROP', 'NO_HITS', 'CALLS_REFUSED', 'QUOTA', 'DELIVERIES_FAILED'];
const accountEvents: AlertEvent[] = [...siteEvents, 'CAPTCHA_ATTACK', 'NEW_SIGN_IN'];

/** SiteAlerts shows the channels of a site. */
export function SiteAlerts({ id }: { id: string }) {
  const query = useQuery(siteAlerts, { id });
  return (
    <SettingsPage id={id} query={query} title={t('alerts.title')}>
      {({ site }) =>
        site ? (
          <>
            <p class="lead">
              {t('alerts.ofSite')} <a href="/alerts">{t('alerts.ofAccountLink')}</a>
            </p>
            <Channels channels={site.alertChannels} siteId={id} reload={query.reload} />
          </>
        ) : (
          <Missing />
        )
      }
    </SettingsPage>
  );
}

/** AccountAlerts shows the channels of the chosen account. */
export function AccountAlerts() {
  const query = useQuery(accountAlerts, { account: chosenAccount() });
  return (
    <>
      <Title text={t('alerts.title')} />
      <p class="lead">{t('alerts.ofAccount')}</p>
      <Loaded query={query}>
        {({ account }) =>
          account ? <Channels channels={account.alertChannels} accountId={account.id} reload={query.reload} /> : <Missing />
        }
      </Loaded>
    </>
  );
}

interface Owner {
  channels: AlertChannelFields[];
  siteId?: string;
  accountId?: string;
  reload(): Promise<void>;
}

function Channels(props: Owner) {
  const { channels, reload } = props;
  return (
    <>
      {channels.length === 0 ? (
        <Empty>
          <h2>{t('alerts.none')}</h2>
        </Empty>
      ) : (
        channels.map((channel) => <Channel key={channel.id} channel={channel} reload={reload} />)
      )}
      {mayEdit() && <NewChannel key={channels.length} {...props} />}
    </>
  );
}

function Channel({ channel, reload }: { channel: AlertChannelFields; reload(): Promise<void> }) {
  const { id, name } = channel;
  const test = async (): Promise<UserError[]> => {
    const errors = (await sendTestAlert({ input: { alertChannelId: id } })).sendTestAlert?.userErrors ?? [];
    if (errors.length === 0) {
      announce(t('alerts.tested', { name }));
      await reload();
    }
    return errors;
  };
  const remove = async (): Promise<UserError[]> => {
    const errors = (await deleteAlertChannel({ input: { alertChannelId: id } })).deleteAlertChannel?.userErrors ?? [];
    if (errors.length === 0) {
      announce(t('alerts.deleted', { name }));
      await reload();
    }
    return errors;
  };

  return (
    <Section title={name}>
      <p>
        {t(`alerts.kind.${channel.kind}`)}: {channel.target}{' '}
        <span class={'state ' + (channel.state === 'STOPPED' ? 'FAILED' : '')}>{t(`alerts.state.${channel.state}`)}</span>
      </p>
      <p class="hint">{channel.events.map((event) => t(`alerts.event.${event}`)).join(', ')}</p>
      {channel.messages.nodes.length > 0 && (
        <Table label={t('alerts.messages', { name })} head={[t('alerts.when'), t('alerts.message'), t('alerts.result')]}>
          {channel.messages.nodes.map((message) => (
            <tr key={message.id}>
              <th scope="row">
                <Time at={message.createdAt} />
              </th>
              <td>
                {message.title} <code class="hint">{message.event}</code>
              </td>
              <td>
                {t(`alerts.sent.${message.state}`)}
                {message.attempts.map((attempt) => (
                  <p class="hint" key={attempt.at}>
                    <Time at={attempt.at} /> {attempt.status} {attempt.error}
                  </p>
                ))}
              </td>
            </tr>
          ))}
        </Table>
      )}
      {mayEdit() && (
        <>
          <Form submit={t('alerts.test')} label={t('alerts.testNamed', { name })} onSubmit={test} />
          <Ask button={t('alerts.delete')} label={t('alerts.deleteNamed', { name })} text={t('alerts.deleteText')} run={remove} />
        </>
      )}
    </Section>
  );
}

/** minutes returns the minute of the day of a time such as 22:00. */
const minutes = (time: string): number => {
  const [hour, minute] = time.split(':');
  return Number(hour) * 60 + Number(minute);
};

function NewChannel({ siteId, accountId, reload }: Owner) {
  const [kind, setKind] = useState<AlertChannelKind>('EMAIL');
  const create = async (values: Values): Promise<UserError[]> => {
    const { from, to } = values;
    const input = {
      kind,
      name: values['name'] ?? '',
      address: values['address'] ?? '',
      ...(kind === 'WEBHOOK' && values['secret'] && { secret: values['secret'] }),
      language: language() === 'de' ? ('DE' as const) : ('EN' as const),
      events: accountEvents.filter((event) => event in values),
      ...(from &&
        to && {
          quietHours: {
            from: minutes(from),
            to: minutes(to),
            timeZone: Intl.DateTimeFormat().resolvedOptions().timeZone,
          },
        }),
    };
    const payload = siteId
      ? (
          await createSiteAlertChannel({
            input: { ...input, siteId, weekly: 'weekly' in values, monthly: 'monthly' in values },
          })
        ).createSiteAlertChannel
      : (await createAlertChannel({ input: { ...input, ...(accountId && { accountId }) } })).createAlertChannel;
    if (payload?.alertChannel) {
      announce(t('alerts.created'));
      await reload();
    }
    return payload?.userErrors ?? [];
  };

  return (
    <Section title={t('alerts.new')}>
      <Form submit={t('alerts.create')} onSubmit={create} class="column" label={t('alerts.new')}>
        <Select
          name="kind"
          label={t('alerts.kind')}
          value={kind}
          options={kinds.map((kind): [string, string] => [kind, t(`alerts.kind.${kind}`)])}
          onChange={(value) => setKind(value as AlertChannelKind)}
        />
        <Field name="name" label={t('alerts.name')} maxLength={100} required />
        <Field
          name="address"
          label={t('alerts.address')}
          hint={t(kind === 'EMAIL' ? 'alerts.emailHint' : 'alerts.urlHint')}
          inputMode={kind === 'EMAIL' ? 'email' : 'url'}
          required
        />
        {kind === 'WEBHOOK' && <Field name="secret" label={t('alerts.secret')} hint={t('alerts.secretHint')} />}
        <fieldset>
          <legend>{t('alerts.events')}</legend>
          {(siteId ? siteEvents : accountEvents).map((event) => (
            <Check key={event} name={event} label={t(`alerts.event.${event}`)} />
          ))}
          {siteId && (
            <>
              <Check name="weekly" label={t('alerts.weekly')} />
              <Check name="monthly" label={t('alerts.monthly')} />
            </>
          )}
        </fieldset>
        <Field name="from" type="time" label={t('alerts.quietFrom')} hint={t('alerts.quietHint')} />
        <Field name="to" type="time" label={t('alerts.quietTo')} />
      </Form>
    </Section>
  );
}
