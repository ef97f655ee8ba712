// The forms that add and change a channel.
import { useState } from 'preact/hooks';
import type { UserError } from '../core/api';
import { Field, Form, Select, type Values } from '../core/form';
import { language, languages, t } from '../core/language';
import { announce, viewer } from '../core/store';
import { Section } from '../core/ui';
import { Check } from '../parts/check';
import {
  createAlertChannel,
  createSiteAlertChannel,
  setOwnAlertChannel,
  updateAlertChannel,
  type AlertChannelFields,
  type AlertChannelKind,
  type AlertEvent,
  type Language,
} from '../operations';
import { changes, checked } from '../parts/changes';
import { Secret } from '../parts/copy';
import { zones } from '../parts/zones';

const kinds: AlertChannelKind[] = ['EMAIL', 'SLACK', 'DISCORD', 'TEAMS', 'WEBHOOK'];

/** siteEvents are the events about one site; a channel of the account can want others as well. */
const siteEvents: AlertEvent[] = ['TRAFFIC_SPIKE', 'TRAFFIC_DROP', 'NO_HITS', 'CALLS_REFUSED', 'QUOTA', 'DELIVERIES_FAILED'];
const accountEvents: AlertEvent[] = [...siteEvents, 'CAPTCHA_ATTACK', 'NEW_SIGN_IN'];
const operatorEvents: AlertEvent[] = [...accountEvents, 'JOBS_FAILED', 'CERTIFICATE_FAILED', 'QUOTAS_USED'];

/** Owner is the site or the account of channels. */
export interface Owner {
  siteId?: string;
  accountId?: string;
  /** The time zone that quiet hours have first. */
  timeZone: string;
}

/** offered returns the events to choose from: those that the user may add, and those that a channel has. */
function offered({ siteId }: Owner, channel?: AlertChannelFields): AlertEvent[] {
  const mine = siteId ? siteEvents : viewer.get()?.operator ? operatorEvents : accountEvents;
  return operatorEvents.filter((event) => mine.includes(event) || channel?.events.includes(event));
}

/** newSecret returns 24 random bytes, in the form that libraries for signed webhooks expect. */
const newSecret = (): string => 'whsec_' + btoa(String.fromCharCode(...crypto.getRandomValues(new Uint8Array(24))));

/** clock returns a minute of the day as an input of times has it, such as 22:00. */
export const clock = (minute: number): string =>
  [Math.floor(minute / 60), minute % 60].map((n) => String(n).padStart(2, '0')).join(':');

const minuteOf = (time: string): number => {
  const [hour, minute] = time.split(':');
  return Number(hour) * 60 + Number(minute);
};

/** quietOf returns the quiet hours of a form, or null without. */
const quietOf = ({ from, to, zone = '' }: Values) =>
  from && to ? { from: minuteOf(from), to: minuteOf(to), timeZone: zone } : null;

/** halfQuiet returns the error of quiet hours that have one time only. */
const halfQuiet = ({ from, to }: Values): UserError[] =>
  !from === !to
    ? []
    : [{ field: ['input', from ? 'to' : 'from'], code: 'INVALID_QUIET_HOURS', message: t('alerts.quietBoth') }];

/** firstFields are the first fields of the groups that the server knows as one field. */
const firstFields: Record<string, string> = { quietHours: 'from', events: siteEvents[0]! };

/** atFields moves errors of quiet hours and events to their first field. */
const atFields = (errors: UserError[] = []): UserError[] =>
  errors.map((e) => ({ ...e, field: e.field && ['input', firstFields[e.field[1]!] ?? e.field[1]!] }));

/** plannedOf returns the summaries and thresholds of a form. */
const plannedOf = (values: Values) => {
  const number = (text = ''): number | null => (text.trim() ? Number(text) : null);
  return {
    weekly: 'weekly' in values,
    monthly: 'monthly' in values,
    spikeAbove: number(values['spikeAbove']),
    dropBelow: number(values['dropBelow']),
  };
};

/** changedWishes returns what a form changes of the fields of Wishes. */
function changedWishes(form: HTMLFormElement, values: Values, owner: Owner, channel?: AlertChannelFields) {
  const events = checked(form, offered(owner, channel));
  const { from, to, zone } = changes(form, { from: '', to: '', zone: '' });
  return {
    ...(events && { events }),
    ...(owner.siteId && changes(form, plannedOf(values))),
    ...([from, to, zone].some((changed) => changed !== undefined) && { quietHours: quietOf(values) }),
  };
}

/** Wishes are the fields of what a channel gets, and when. */
function Wishes({ owner, channel }: { owner: Owner; channel?: AlertChannelFields }) {
  const quiet = channel?.quietHours;
  const zone = quiet?.timeZone ?? owner.timeZone;
  return (
    <>
      <fieldset>
        <legend>{t('alerts.events')}</legend>
        {offered(owner, channel).map((event) => (
          <Check key={event} name={event} label={t(`alerts.event.${event}`)} checked={!!channel?.events.includes(event)} />
        ))}
      </fieldset>
      {owner.siteId && (
        <>
          <fieldset>
            <legend>{t('alerts.summaries')}</legend>
            <Check name="weekly" label={t('alerts.weekly')} checked={!!channel?.weekly} />
            <Check name="monthly" label={t('alerts.monthly')} checked={!!channel?.monthly} />
          </fieldset>
          <fieldset>
            <legend>{t('alerts.thresholds')}</legend>
            <Threshold name="spikeAbove" text="spike" value={channel?.spikeAbove} />
            <Threshold name="dropBelow" text="drop" value={channel?.dropBelow} />
          </fieldset>
        </>
      )}
      <fieldset>
        <legend>{t('alerts.quiet')}</legend>
        <p class="hint">{t('alerts.quietHint')}</p>
        <Field name="from" type="time" label={t('alerts.quietFrom')} value={quiet ? clock(quiet.from) : ''} />
        <Field name="to" type="time" label={t('alerts.quietTo')} value={quiet ? clock(quiet.to) : ''} />
        <Select name="zone" label={t('alerts.zone')} value={zone} options={zones(zone)} />
      </fieldset>
    </>
  );
}

function Threshold({ name, text, value }: { name: string; text: 'spike' | 'drop'; value?: number | null | undefined }) {
  return (
    <Field
      name={name}
      type="number"
      min="1"
      max="1000000000"
      label={t(`alerts.${text}`)}
      hint={t(`alerts.${text}Hint`)}
      value={value ? String(value) : ''}
    />
  );
}

/** OwnForm changes the reader's own channel of a site. */
export function OwnForm(props: { channel: AlertChannelFields | null; owner: Owner; saved(): Promise<void> }) {
  const { channel, owner, saved } = props;
  const save = async (values: Values, form: HTMLFormElement): Promise<UserError[]> => {
    const half = halfQuiet(values);
    if (half.length > 0) return half;

    const input = { siteId: owner.siteId!, ...changedWishes(form, values, owner, channel ?? undefined) };
    const errors = (await setOwnAlertChannel({ input })).setOwnAlertChannel?.userErrors;
    if (!errors?.length) await saved();
    return atFields(errors);
  };
  return (
    <Form submit={t('save')} onSubmit={save} class="column" label={t('alerts.own')}>
      <Wishes owner={owner} {...(channel && { channel })} />
    </Form>
  );
}

/** Settings are the fields that a new channel and a changed one share. */
function Settings({ owner, kind, channel }: { owner: Owner; kind: AlertChannelKind; channel?: AlertChannelFields }) {
  const secret: [string, string][] = [
    ['new', t('alerts.secretNew')],
    ['none', t('alerts.secretNone')],
  ];
  if (channel) secret.unshift(['keep', t('alerts.secretKeep')]);
  return (
    <>
      {kind === 'WEBHOOK' && (
        <Select name="secret" label={t('alerts.secret')} hint={t('alerts.secretHint')} value={secret[0]![0]} options={secret} />
      )}
      <Select
        name="language"
        label={t('footer.language')}
        value={channel?.language ?? language().toUpperCase()}
        options={Object.entries(languages).map(([code, name]) => [code.toUpperCase(), name])}
      />
      <Wishes owner={owner} {...(channel && { channel })} />
    </>
  );
}

/** NewChannel adds a channel. The secret of its calls is shown once. */
export function NewChannel({ owner, reload }: { owner: Owner; reload(): Promise<void> }) {
  const [kind, setKind] = useState<AlertChannelKind>('EMAIL');
  const [added, setAdded] = useState(0);
  const [secret, setSecret] = useState('');
  const { siteId, accountId } = owner;

  const create = async (values: Values): Promise<UserError[]> => {
    const half = halfQuiet(values);
    if (half.length > 0) return half;

    const signed = kind === 'WEBHOOK' && values['secret'] === 'new' ? newSecret() : null;
    const input = {
      kind,
      name: values['name'] ?? '',
      address: values['address'] ?? '',
      secret: signed,
      language: values['language'] as Language,
      events: operatorEvents.filter((event) => event in values),
      quietHours: quietOf(values),
    };
    const payload = siteId
      ? (await createSiteAlertChannel({ input: { ...input, ...plannedOf(values), siteId } })).createSiteAlertChannel
      : (await createAlertChannel({ input: { ...input, accountId: accountId ?? null } })).createAlertChannel;
    if (payload?.alertChannel) {
      announce(t(kind === 'EMAIL' ? 'alerts.mailed' : 'alerts.created'));
      setSecret(signed ?? '');
      setAdded(added + 1); // a new form, without the URL
      setKind('EMAIL');
      await reload();
    }
    return atFields(payload?.userErrors);
  };

  return (
    <Section title={t('alerts.new')}>
      {secret && <Secret text={secret} label={t('alerts.newSecret')} onDone={() => setSecret('')} />}
      <Form key={added} submit={t('alerts.create')} onSubmit={create} class="column" label={t('alerts.new')}>
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
          label={t(kind === 'EMAIL' ? 'email' : 'alerts.url')}
          hint={t(kind === 'EMAIL' ? 'alerts.emailHint' : 'alerts.urlHint')}
          inputMode={kind === 'EMAIL' ? 'email' : 'url'}
          required
        />
        <Settings owner={owner} kind={kind} />
      </Form>
    </Section>
  );
}

/** EditChannel changes a channel. saved gets the new secret of its calls, or an empty text. */
export function EditChannel(props: { channel: AlertChannelFields; owner: Owner; saved(secret: string): Promise<void> }) {
  const { channel, owner, saved } = props;
  const save = async (values: Values, form: HTMLFormElement): Promise<UserError[]> => {
    const half = halfQuiet(values);
    if (half.length > 0) return half;

    const signed = values['secret'] === 'new' ? newSecret() : null;
    const input = {
      alertChannelId: channel.id,
      ...changes(form, { name: values['name'] ?? '', language: values['language'] as Language }),
      ...(values['address'] && { address: values['address'] }),
      ...(['new', 'none'].includes(values['secret'] ?? '') && { secret: signed }),
      ...changedWishes(form, values, owner, channel),
    };
    const payload = (await updateAlertChannel({ input })).updateAlertChannel;
    if (payload?.alertChannel) await saved(signed ?? '');
    return atFields(payload?.userErrors);
  };

  return (
    <Form submit={t('save')} onSubmit={save} class="column" label={t('alerts.editNamed', { name: channel.name })}>
      <Field name="name" label={t('alerts.name')} value={channel.name} maxLength={100} required />
      {channel.kind === 'EMAIL' ? (
        <p class="hint">{t('alerts.emailStays')}</p>
      ) : (
        <Field name="address" label={t('alerts.url')} hint={t('alerts.urlKept', { target: channel.target })} inputMode="url" />
      )}
      <Settings owner={owner} kind={channel.kind} channel={channel} />
    </Form>
  );
}
