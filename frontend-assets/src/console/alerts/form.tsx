// The forms that add and change a channel.
import { useRef, useState } from 'preact/hooks';
import type { UserError } from '../core/api';
import { Field, Select, type Values } from '../core/form';
import { language, languages, t } from '../core/language';
import { viewer } from '../core/store';
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
import { Choice } from '../parts/choice';
import { zones } from '../parts/zones';
import { clock, drawings, KindIcon, numbersOf, quietText, type Owner } from './wishes';

/** siteEvents are the events about one site; a channel of the account can want others as well. */
const siteEvents: AlertEvent[] = ['TRAFFIC_SPIKE', 'TRAFFIC_DROP', 'NO_HITS', 'CALLS_REFUSED', 'QUOTA', 'DELIVERIES_FAILED'];
const accountEvents: AlertEvent[] = [...siteEvents, 'CAPTCHA_ATTACK', 'NEW_SIGN_IN'];
const operatorEvents: AlertEvent[] = [...accountEvents, 'JOBS_FAILED', 'CERTIFICATE_FAILED', 'QUOTAS_USED'];

/** usual are the events that a new channel wants. */
const usual: AlertEvent[] = ['TRAFFIC_DROP', 'NO_HITS', 'CALLS_REFUSED', 'QUOTA'];

/** offered returns the events to choose from: those that the user may add, and those that a channel has. */
function offered({ siteId }: Owner, channel?: AlertChannelFields | null): AlertEvent[] {
  const mine = siteId ? siteEvents : viewer.get()?.operator ? operatorEvents : accountEvents;
  return operatorEvents.filter((event) => mine.includes(event) || channel?.events.includes(event));
}

/** newSecret returns 24 random bytes, in the form that libraries for signed webhooks expect. */
const newSecret = (): string => 'whsec_' + btoa(String.fromCharCode(...crypto.getRandomValues(new Uint8Array(24))));

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
function changedWishes(form: HTMLFormElement, values: Values, owner: Owner, channel?: AlertChannelFields | null) {
  const events = checked(form, offered(owner, channel));
  const { from, to, zone } = changes(form, { from: '', to: '', zone: '' });
  return {
    ...(events && { events }),
    ...(owner.siteId && changes(form, plannedOf(values))),
    ...([from, to, zone].some((changed) => changed !== undefined) && { quietHours: quietOf(values) }),
  };
}

/** Wishes are the fields of what a channel gets, and when. first are the events of a channel that is not stored yet. */
export function Wishes({ owner, channel, first = [] }: { owner: Owner; channel?: AlertChannelFields | null | undefined; first?: AlertEvent[] }) {
  const quiet = channel?.quietHours;
  const zone = quiet?.timeZone ?? owner.timeZone;
  const numbers = channel ? numbersOf(channel) : [];
  return (
    <>
      <fieldset class="dates">
        <legend>{t('alerts.events')}</legend>
        {offered(owner, channel).map((event) => (
          <Check
            key={event}
            name={event}
            label={t(`alerts.event.${event}`)}
            hint={t(`alerts.when.${event}`)}
            checked={(channel?.events ?? first).includes(event)}
          />
        ))}
      </fieldset>
      {owner.siteId && (
        <fieldset class="dates">
          <legend>{t('alerts.summaries')}</legend>
          <Check name="weekly" label={t('alerts.weekly')} checked={!!channel?.weekly} />
          <Check name="monthly" label={t('alerts.monthly')} checked={!!channel?.monthly} />
        </fieldset>
      )}
      <div>
        {owner.siteId && (
          <details>
            <summary>{t('alerts.thresholds')}: {numbers.join(', ') || t('alerts.noEvents')}</summary>
            <div class="dates">
              <Threshold name="spikeAbove" text="spike" value={channel?.spikeAbove} />
              <Threshold name="dropBelow" text="drop" value={channel?.dropBelow} />
            </div>
          </details>
        )}
        <details>
          <summary>{t('alerts.quiet')}: {quiet ? quietText(quiet) : t('alerts.noEvents')}</summary>
          <p>{t('alerts.quietHint')}</p>
          <div class="dates">
            <Field name="from" type="time" label={t('alerts.quietFrom')} value={quiet ? clock(quiet.from) : ''} />
            <Field name="to" type="time" label={t('alerts.quietTo')} value={quiet ? clock(quiet.to) : ''} />
            <Select name="zone" label={t('alerts.zone')} value={zone} options={zones(zone)} />
          </div>
        </details>
      </div>
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

/** saveOwn stores the reader's own channel of a site. */
export async function saveOwn(values: Values, form: HTMLFormElement, owner: Owner, channel: AlertChannelFields | null): Promise<UserError[]> {
  const half = halfQuiet(values);
  if (half.length > 0) return half;
  const input = { siteId: owner.siteId!, ...changedWishes(form, values, owner, channel) };
  return atFields((await setOwnAlertChannel({ input })).setOwnAlertChannel?.userErrors);
}

/** nameOf proposes a name for a channel with an address. */
const nameOf = (kind: AlertChannelKind, address: string): string =>
  (kind === 'EMAIL' ? address : kind === 'WEBHOOK' ? address.replace(/^https?:\/\//, '').replace(/[/?#].*/, '') : t(`alerts.kind.${kind}`)).slice(0, 100);

/** ChannelFields are the fields of a channel, which is new without one. */
export function ChannelFields({ channel, owner }: { channel?: AlertChannelFields | undefined; owner: Owner }) {
  const [kind, setKind] = useState<AlertChannelKind>(channel?.kind ?? 'EMAIL');
  const proposed = useRef('');
  const isMail = kind === 'EMAIL';

  /** propose follows the address with the name until another name is typed. */
  const propose = ({ target }: Event): void => {
    const { name, value, form } = target as HTMLInputElement;
    const field = form!.elements.namedItem('name') as HTMLInputElement;
    if (name === 'address' && !channel && field.value === proposed.current) field.value = proposed.current = nameOf(kind, value);
  };
  const secrets: [string, string][] = [
    ...(channel ? [['keep', t('alerts.secretKeep')] as [string, string]] : []),
    ['new', t('alerts.secretNew')],
    ['none', t('alerts.secretNone')],
  ];
  const hint = isMail ? t('alerts.emailHint') : channel ? t('alerts.urlKept', { target: channel.target }) : t('alerts.urlHint');
  return (
    <div class="column" onInput={propose}>
      <input type="hidden" name="kind" value={kind} />
      {!channel && (
        <Choice<AlertChannelKind>
          label={t('alerts.kind')}
          options={(Object.keys(drawings) as AlertChannelKind[]).map((kind) => [kind, <><KindIcon kind={kind} /> {t(`alerts.kind.${kind}`)}</>])}
          chosen={kind}
          choose={setKind}
        />
      )}
      {channel && isMail ? (
        <p class="hint">{t('alerts.emailStays')}</p>
      ) : (
        <Field name="address" label={t(isMail ? 'email' : 'alerts.url')} hint={hint} inputMode={isMail ? 'email' : 'url'} required={!channel} autoFocus />
      )}
      <Field name="name" label={t('alerts.name')} value={channel?.name ?? ''} maxLength={100} required />
      {kind === 'WEBHOOK' && (
        <Select name="secret" label={t('alerts.secret')} hint={t('alerts.secretHint')} value={secrets[0]![0]} options={secrets} />
      )}
      <Select
        name="language"
        label={t('footer.language')}
        value={channel?.language ?? language().toUpperCase()}
        options={Object.entries(languages).map(([code, name]) => [code.toUpperCase(), name])}
      />
      <Wishes owner={owner} channel={channel} first={usual} />
    </div>
  );
}

/** saveChannel adds a channel or changes one. done gets its kind, and the new secret of its calls or an empty text. */
export async function saveChannel(
  values: Values,
  form: HTMLFormElement,
  owner: Owner,
  channel: AlertChannelFields | undefined,
  done: (secret: string, kind: string) => Promise<void>,
): Promise<UserError[]> {
  const half = halfQuiet(values);
  if (half.length > 0) return half;

  const { name = '', address = '', secret = '' } = values;
  const kind = values['kind'] as AlertChannelKind;
  const chosen = values['language'] as Language;
  const signed = secret === 'new' ? newSecret() : null;
  const events = operatorEvents.filter((event) => event in values);
  const input = { kind, name, address, secret: signed, language: chosen, events, quietHours: quietOf(values) };
  const changed = () => ({
    alertChannelId: channel!.id,
    ...changes(form, { name, language: chosen }),
    ...(address && { address }),
    ...(['new', 'none'].includes(secret) && { secret: signed }),
    ...changedWishes(form, values, owner, channel),
  });
  const payload = channel
    ? (await updateAlertChannel({ input: changed() })).updateAlertChannel
    : owner.siteId
      ? (await createSiteAlertChannel({ input: { ...input, ...plannedOf(values), siteId: owner.siteId } })).createSiteAlertChannel
      : (await createAlertChannel({ input: { ...input, accountId: owner.accountId ?? null } })).createAlertChannel;
  if (payload?.alertChannel) await done(signed ?? '', kind);
  return atFields(payload?.userErrors);
}
