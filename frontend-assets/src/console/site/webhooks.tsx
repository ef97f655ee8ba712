// Webhooks of a site: their addresses, and the deliveries with their attempts.
import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { UserError } from '../core/api';
import { useQuery } from '../core/data';
import { Action } from '../core/dialog';
import { Field, type Values } from '../core/form';
import { t } from '../core/language';
import { Empty, Missing } from '../core/states';
import { announce, mayEdit } from '../core/store';
import { Section } from '../core/ui';
import { Code, CopyButton } from '../parts/copy';
import {
  deliveries as readDeliveries,
  delivery as readDelivery,
  redeliver,
  redeliverFailed,
  resendDailyExport,
  sendTestWebhook,
  setConversionWebhook,
  setDailyExportWebhook,
  webhooks,
  type DeliveryFields,
  type DeliveryFilter,
  type DeliveryKind,
  type DeliveryState,
  type WebhookFields,
  type WebhooksData,
} from '../operations';
import { Ask } from '../parts/ask';
import { Delivery, usePending } from '../parts/attempts';
import { changes } from '../parts/changes';
import { Group, Row } from '../parts/group';
import { SettingsPage } from '../parts/settings';

type Site = NonNullable<WebhooksData['site']>;

interface Payload {
  site: WebhookFields | null;
  userErrors: UserError[];
}

/** Webhooks configures both webhooks and shows their deliveries. */
export function Webhooks({ id }: { id: string }) {
  const query = useQuery(webhooks, { id });
  const [sent, setSent] = useState(0);
  return (
    <SettingsPage id={id} query={query} title={t('webhooks.title')}>
      {(data) => {
        const { site } = data;
        if (!site) return <Missing />;

        const show = (payload: Payload | null): UserError[] => {
          if (payload?.site) {
            query.set({ ...data, site: { ...site, ...payload.site } });
            announce(t('saved'));
          }
          return payload?.userErrors ?? [];
        };
        return (
          <>
            <Group tall title={t('webhooks.addresses')}>
              <ul class="rows">
                <Conversion site={site} show={show} />
                <Daily site={site} show={show} onSent={() => setSent(sent + 1)} />
              </ul>
            </Group>
            <Deliveries site={site} sent={sent} />
          </>
        );
      }}
    </SettingsPage>
  );
}

interface FormProps {
  site: Site;
  show(payload: Payload | null): UserError[];
}

/** Address is a line with an address and its buttons, which are there for those who may change it. */
function Address(props: { name: string; hint: string; url: string | null; children: ComponentChildren }) {
  return (
    <Row name={<strong>{props.name}</strong>} text={<>{props.hint}<br />{props.url ? <code>{props.url}</code> : t('webhooks.off')}</>}>
      {mayEdit() && props.children}
    </Row>
  );
}

/** UrlField is the field of an address. */
const UrlField = ({ url }: { url: string | null }) => (
  <Field name="url" type="url" label={t('webhooks.url')} hint={t('webhooks.urlHint')} value={url ?? ''} placeholder="https://example.com/hooks/tallygate" autoFocus />
);

function Conversion({ site, show }: FormProps) {
  const { conversionWebhookUrl: url, conversionWebhookSigned: signed } = site;
  const name = t('webhooks.conversion');
  const set = async (input: { url?: string; secret?: string }): Promise<UserError[]> =>
    show((await setConversionWebhook({ input: { siteId: site.id, ...input } })).setConversionWebhook);
  const save = ({ url = '', secret }: Values, form: HTMLFormElement): Promise<UserError[]> => set({ ...changes(form, { url }), ...(secret && { secret }) });
  return (
    <Address name={name} hint={`${t('webhooks.conversionHint')} ${signed ? t('webhooks.signed') : ''}`} url={url}>
      <Ask button={t('webhooks.change')} label={t('webhooks.changeNamed', { name })} submit={t('save')} run={save}>
        <UrlField url={url} />
        <SecretField hint={t(signed ? 'webhooks.secretSet' : 'webhooks.secretNone')} />
      </Ask>
      {signed && <Action run={() => set({ secret: '' })}>{t('webhooks.secretRemove')}</Action>}
    </Address>
  );
}

/** SecretField makes 24 random bytes, in the form that libraries for signed webhooks expect. */
function SecretField({ hint }: { hint: string }) {
  const [secret, setSecret] = useState('');
  const generate = (): void => setSecret('whsec_' + btoa(String.fromCharCode(...crypto.getRandomValues(new Uint8Array(24)))));
  return (
    <>
      <Field key={secret} name="secret" label={t('webhooks.secret')} hint={hint} value={secret} maxLength={256} />
      <p>
        <button type="button" class="small" onClick={generate}>{t('webhooks.generate')}</button>{' '}
        {secret && <><CopyButton text={secret} label={t('webhooks.secret')} /> <span class="hint">{t('secret.once')}</span></>}
      </p>
    </>
  );
}

function Daily({ site, show, onSent }: FormProps & { onSent(): void }) {
  const name = t('webhooks.daily');
  const save = async ({ url = '' }: Values, form: HTMLFormElement): Promise<UserError[]> =>
    show((await setDailyExportWebhook({ input: { siteId: site.id, ...changes(form, { url }) } })).setDailyExportWebhook);
  const resend = async ({ date = '' }: Values): Promise<UserError[]> => {
    const payload = (await resendDailyExport({ input: { siteId: site.id, date } })).resendDailyExport;
    if (payload?.userErrors.length) return payload.userErrors;
    announce(t('webhooks.daySent', { n: payload?.parts ?? 0 }));
    onSent();
    return [];
  };
  return (
    <Address name={name} hint={t('webhooks.dailyHint')} url={site.dailyExportUrl}>
      <Ask button={t('webhooks.change')} label={t('webhooks.changeNamed', { name })} submit={t('save')} run={save}><UrlField url={site.dailyExportUrl} /></Ask>
      {site.dailyExportUrl && (
        <Ask button={t('webhooks.resendDay')} text={t('webhooks.resendDayHint')} run={resend}>
          <Field name="date" type="date" label={t('webhooks.day')} value={day(-1)} max={day(-1)} required autoFocus />
        </Ask>
      )}
    </Address>
  );
}

/** day returns a UTC day as YYYY-MM-DD, counted from today. */
const day = (from: number): string => new Date(Date.now() + from * 86_400_000).toISOString().slice(0, 10);

/** keptDays is how long deliveries are kept. */
const keptDays = 30;

const states = ['PENDING', 'WAITING', 'DELIVERED', 'FAILED'] as const;
const kinds = ['CONVERSION', 'DAILY_EXPORT', 'TEST'] as const;

/**
 * Deliveries lists the site's deliveries, newest first, by state, kind, event and time. Deliveries
 * in progress are read again until they end. sent changes when new deliveries are stored.
 */
function Deliveries({ site, sent }: { site: Site; sent: number }) {
  const [page, setPage] = useState(site.deliveries);
  const [filter, setFilter] = useState<DeliveryFilter>({});
  const latest = useRef<AbortController | undefined>(undefined);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const edit = mayEdit();
  const list = page?.nodes ?? [];

  // A delivery that is not on the loaded pages stays where it is.
  const put = (changed: DeliveryFields): void =>
    setPage((before) => before && { ...before, nodes: before.nodes.map((d) => (d.id === changed.id ? changed : d)) });

  const load = async (wanted: DeliveryFilter): Promise<void> => {
    latest.current?.abort();
    const { signal } = (latest.current = new AbortController());
    try {
      const next = (await readDeliveries({ id: site.id, after: null, filter: wanted }, signal)).site?.deliveries;
      if (next) setPage(next);
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  };

  useEffect(() => {
    if (sent > 0) void load(filter);
    return () => latest.current?.abort();
  }, [sent]);

  /** choose changes the filter. A text that is being typed is searched after a pause. */
  const choose = (changes: DeliveryFilter, pause = 0): void => {
    const chosen = Object.entries({ ...filter, ...changes }).filter(([, value]) => value);
    const next = Object.fromEntries(chosen) as DeliveryFilter;
    setFilter(next);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => void load(next), pause);
  };

  usePending(
    list,
    async (id) => (await readDelivery({ id })).node as DeliveryFields | null,
    put,
    ({ event, state }) => announce(t('webhooks.result', { event, state: t(`webhooks.state.${state}`) })),
  );

  const more = async (): Promise<void> => {
    const after = page!.pageInfo.endCursor;
    const next = (await readDeliveries({ id: site.id, after, filter })).site?.deliveries;
    if (next) setPage({ ...next, nodes: [...list, ...next.nodes] });
  };

  const test = async (kind: 'CONVERSION' | 'DAILY_EXPORT'): Promise<UserError[]> => {
    const payload = (await sendTestWebhook({ input: { siteId: site.id, kind } })).sendTestWebhook;
    const { delivery } = payload ?? {};
    if (delivery) setPage((before) => before && { ...before, nodes: [delivery, ...before.nodes] });
    return payload?.userErrors ?? [];
  };

  const again = async (): Promise<UserError[]> => {
    const since = filter.since ?? day(-keptDays) + 'T00:00:00Z';
    for (let n = 0; ; ) {
      const payload = (await redeliverFailed({ input: { siteId: site.id, since } })).redeliverFailed;
      if (!payload || payload.userErrors.length > 0) return payload?.userErrors ?? [];
      n += payload.redelivered;
      if (payload.hasMore) continue;
      announce(n > 0 ? t('webhooks.sentAgain', { n }) : t('webhooks.noFailed'));
      await load(filter);
      return [];
    }
  };

  const filtered = Object.keys(filter).length > 0;
  return (
    <Section title={t('webhooks.deliveries')} hint={t('webhooks.deliveriesHint')}>
      {edit && (
        <div class="filters">
          <Action run={() => test('CONVERSION')} disabled={!site.conversionWebhookUrl}>{t('webhooks.test')}</Action>
          <Action run={() => test('DAILY_EXPORT')} disabled={!site.dailyExportUrl}>{t('webhooks.testDaily')}</Action>
          <Action run={again}>{t('webhooks.againAll')}</Action>
        </div>
      )}
      <div class="filters" role="search" aria-label={t('webhooks.deliveries')}>
        <label>
          {t('webhooks.byState')}{' '}
          <select onChange={(e) => choose({ state: e.currentTarget.value as DeliveryState })}>
            <option value="">{t('webhooks.all')}</option>
            {states.map((state) => (
              <option key={state} value={state}>{t(`webhooks.state.${state}`)}</option>
            ))}
          </select>
        </label>
        <label>
          {t('webhooks.byKind')}{' '}
          <select onChange={(e) => choose({ kind: e.currentTarget.value as DeliveryKind })}>
            <option value="">{t('webhooks.all')}</option>
            {kinds.map((kind) => (
              <option key={kind} value={kind}>{t(`webhooks.kind.${kind}`)}</option>
            ))}
          </select>
        </label>
        <label>
          {t('webhooks.byEvent')}{' '}
          <input type="search" value={filter.event ?? ''} onInput={(e) => choose({ event: e.currentTarget.value.trim() }, 300)} />
        </label>
        <label>
          {t('webhooks.bySince')}{' '}
          <input
            type="date"
            min={day(-keptDays)}
            max={day(0)}
            onChange={(e) => choose({ since: e.currentTarget.value && e.currentTarget.value + 'T00:00:00Z' })}
          />
        </label>
        <span class="hint" role="status">{filtered && t('webhooks.found', { n: page?.totalCount ?? 0 })}</span>
      </div>
      {list.length === 0 && <Empty>{filtered ? t('webhooks.noMatch') : t('webhooks.none')}</Empty>}
      <ul class="deliveries">
        {list.map((d) => (
          <Details key={d.id} delivery={d} edit={edit} put={put} />
        ))}
      </ul>
      {page?.pageInfo.hasNextPage && <Action run={more}>{t('list.more')}</Action>}
    </Section>
  );
}

/** Details shows a delivery with its attempts, and sends it again. */
function Details({ delivery, edit, put }: { delivery: DeliveryFields; edit: boolean; put(d: DeliveryFields): void }) {
  const again = async (): Promise<UserError[]> => {
    const payload = (await redeliver({ input: { deliveryId: delivery.id } })).redeliver;
    if (payload?.delivery) put(payload.delivery);
    return payload?.userErrors ?? [];
  };
  const part = delivery.part && ` ${t('webhooks.part', { part: delivery.part, parts: delivery.parts ?? 0 })}`;
  return (
    <Delivery of={delivery} name={<code>{delivery.event}</code>} text={<>{t(`webhooks.kind.${delivery.kind}`)}{part}</>} again={edit && again}>
      <dl class="facts">
        <div>
          <dt>{t('webhooks.messageId')}</dt>
          <dd><code>{delivery.messageId}</code> <CopyButton text={delivery.messageId} label={t('webhooks.messageId')} /></dd>
        </div>
        {delivery.url && (
          <div>
            <dt>{t('webhooks.url')}</dt>
            <dd><code>{delivery.url}</code></dd>
          </div>
        )}
      </dl>
      {delivery.body && <Code text={delivery.body} label={t('webhooks.body')} />}
    </Delivery>
  );
}
