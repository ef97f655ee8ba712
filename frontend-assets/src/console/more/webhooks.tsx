// Webhooks of a site: their addresses, and the deliveries with their attempts.
import {
  Action,
  announce,
  Code,
  CopyButton,
  dateTime,
  Empty,
  exact,
  Failure,
  failureText,
  Field,
  Form,
  Loaded,
  mayEdit,
  milliseconds,
  Missing,
  patiently,
  Progress,
  Section,
  SiteHeader,
  t,
  Table,
  Time,
  translated,
  useEffect,
  usePolling,
  useQuery,
  useRef,
  userErrorText,
  useState,
  type UserError,
  type Values,
} from '../core';
import {
  delivery as readDelivery,
  failedDeliveries,
  redeliver,
  sendTestWebhook,
  setConversionWebhook,
  setDailyExportWebhook,
  webhooks,
  type DeliveryFields,
  type WebhookFields,
  type WebhooksData,
} from '../operations';

type Site = NonNullable<WebhooksData['site']>;

interface Payload {
  site: WebhookFields | null;
  userErrors: UserError[];
}

/** Webhooks configures both webhooks and shows what was sent. */
export function Webhooks({ id }: { id: string }) {
  const query = useQuery(webhooks, { id, after: null });
  return (
    <Loaded query={query} title={t('webhooks.title')}>
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
            <SiteHeader site={site} title={t('webhooks.title')} />
            <div class="columns">
              <Conversion site={site} show={show} />
              <Daily site={site} show={show} />
            </div>
            <Deliveries site={site} />
          </>
        );
      }}
    </Loaded>
  );
}

interface FormProps {
  site: Site;
  show(payload: Payload | null): UserError[];
}

function Conversion({ site, show }: FormProps) {
  const edit = mayEdit();
  const [secret, setSecret] = useState('');
  const save = async (values: Values): Promise<UserError[]> => {
    const input = {
      siteId: site.id,
      url: values['url'] ?? '',
      ...(values['secret'] ? { secret: values['secret'] } : {}),
    };
    const errors = show((await setConversionWebhook({ input })).setConversionWebhook);
    if (errors.length === 0) setSecret('');
    return errors;
  };

  // 24 random bytes, in the form that libraries for signed webhooks expect.
  const generate = (): void => {
    const bytes = crypto.getRandomValues(new Uint8Array(24));
    setSecret('whsec_' + btoa(String.fromCharCode(...bytes)));
  };

  return (
    <Section title={t('webhooks.conversion')} hint={t('webhooks.conversionHint')}>
      <Form
        key={secret + site.conversionWebhookSigned}
        submit={t('save')}
        onSubmit={save}
        class="column"
        disabled={!edit}
        label={t('webhooks.conversion')}
      >
        <Field
          name="url"
          type="url"
          label={t('webhooks.url')}
          hint={t('webhooks.urlHint')}
          value={site.conversionWebhookUrl ?? ''}
          placeholder="https://example.com/hooks/tallygate"
          disabled={!edit}
        />
        <Field
          name="secret"
          label={t('webhooks.secret')}
          hint={site.conversionWebhookSigned ? t('webhooks.secretSet') : t('webhooks.secretNone')}
          value={secret}
          maxLength={256}
          disabled={!edit}
        />
        {edit && (
          <p>
            <button type="button" class="small" onClick={generate}>
              {t('webhooks.generate')}
            </button>{' '}
            {secret && <CopyButton text={secret} label={t('webhooks.secret')} />}
            {secret && <span class="hint"> {t('secret.once')}</span>}
          </p>
        )}
      </Form>
      {edit && site.conversionWebhookSigned && (
        <Action
          run={async () =>
            show((await setConversionWebhook({ input: { siteId: site.id, secret: '' } })).setConversionWebhook)
          }
        >
          {t('webhooks.secretRemove')}
        </Action>
      )}
    </Section>
  );
}

function Daily({ site, show }: FormProps) {
  const edit = mayEdit();
  const save = async ({ url = '' }: Values): Promise<UserError[]> =>
    show((await setDailyExportWebhook({ input: { siteId: site.id, url } })).setDailyExportWebhook);
  return (
    <Section title={t('webhooks.daily')} hint={t('webhooks.dailyHint')}>
      <Form submit={t('save')} onSubmit={save} class="column" disabled={!edit} label={t('webhooks.daily')}>
        <Field
          name="url"
          type="url"
          label={t('webhooks.url')}
          hint={t('webhooks.urlHint')}
          value={site.dailyExportUrl ?? ''}
          placeholder="https://example.com/hooks/day"
          disabled={!edit}
        />
      </Form>
    </Section>
  );
}

/** Deliveries lists what was sent, newest first. Deliveries in progress are read again until they end. */
function Deliveries({ site }: { site: Site }) {
  const [list, setList] = useState(site.deliveries?.edges.map((edge) => edge.node) ?? []);
  const [page, setPage] = useState(site.deliveries?.pageInfo);
  const [onlyFailed, setOnlyFailed] = useState(false);
  const edit = mayEdit();

  // A delivery that is not on the loaded pages stays where it is, except a new test.
  const put = (changed: DeliveryFields): void =>
    setList((before) => before.map((d) => (d.id === changed.id ? changed : d)));

  // Deliveries that wait for a later attempt need no polling until it is due.
  const pending = list
    .filter((d) => d.state === 'PENDING' && Date.parse(d.nextAttemptAt ?? '') - Date.now() < 60_000)
    .slice(0, 5);
  usePolling(
    async () => {
      for (const { id } of pending) {
        const next = (await readDelivery({ id })).node as DeliveryFields | null;
        if (!next) continue;
        put(next);
        if (next.state !== 'PENDING')
          announce(t('webhooks.result', { event: next.event, state: t(`webhooks.state.${next.state}`) }));
      }
    },
    pending.length > 0 ? 1500 : 0,
  );

  const more = async (): Promise<void> => {
    const next = (await webhooks({ id: site.id, after: page!.endCursor })).site?.deliveries;
    if (!next) return;
    setList([...list, ...next.edges.map((edge) => edge.node)]);
    setPage(next.pageInfo);
  };

  const test = async (): Promise<UserError[]> => {
    const payload = (await sendTestWebhook({ input: { siteId: site.id } })).sendTestWebhook;
    if (payload?.delivery) setList([payload.delivery, ...list]);
    return payload?.userErrors ?? [];
  };

  const shown = onlyFailed ? list.filter((d) => d.state === 'FAILED') : list;
  return (
    <Section title={t('webhooks.deliveries')} hint={t('webhooks.deliveriesHint')}>
      <div class="filters">
        {edit && (
          <Action run={test} disabled={!site.conversionWebhookUrl}>
            {t('webhooks.test')}
          </Action>
        )}
        {edit && <RedeliverAll site={site} put={put} />}
        <span class="check">
          <input
            id="only-failed"
            type="checkbox"
            checked={onlyFailed}
            onChange={(e) => setOnlyFailed(e.currentTarget.checked)}
          />
          <label for="only-failed">{t('webhooks.onlyFailed')}</label>
        </span>
      </div>
      {shown.length === 0 && <Empty>{onlyFailed ? t('webhooks.noFailed') : t('webhooks.none')}</Empty>}
      <ul class="deliveries">
        {shown.map((d) => (
          <Delivery key={d.id} delivery={d} edit={edit} put={put} />
        ))}
      </ul>
      {page?.hasNextPage && <Action run={more}>{t('list.more')}</Action>}
    </Section>
  );
}

function Delivery({ delivery, edit, put }: { delivery: DeliveryFields; edit: boolean; put(d: DeliveryFields): void }) {
  const again = async (): Promise<UserError[]> => {
    const payload = (await redeliver({ input: { deliveryId: delivery.id } })).redeliver;
    if (payload?.delivery) put(payload.delivery);
    return payload?.userErrors ?? [];
  };
  const last = delivery.attempts[delivery.attempts.length - 1];
  return (
    <li>
      <details>
        <summary>
          <span class={'state ' + delivery.state}>{t(`webhooks.state.${delivery.state}`)}</span>{' '}
          <code>{delivery.event}</code>{' '}
          <span class="hint">
            {t(`webhooks.kind.${delivery.kind}`)}, <Time at={delivery.createdAt} />
            {last?.error && delivery.state !== 'DELIVERED' && <>, {attemptError(last.error)}</>}
          </span>
        </summary>
        {delivery.attempts.length > 0 && (
          <Table
            label={t('webhooks.attempts')}
            head={[
              t('webhooks.at'),
              t('webhooks.duration'),
              t('webhooks.status'),
              t('webhooks.outcome'),
              t('webhooks.answer'),
            ]}
          >
            {delivery.attempts.map((a) => (
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
        )}
        <p class="actions">
          {delivery.state === 'PENDING' && delivery.nextAttemptAt && (
            <span>
              {t('webhooks.next')} <Time at={delivery.nextAttemptAt} />
            </span>
          )}
          {edit && <Action run={again}>{t('webhooks.again')}</Action>}
        </p>
      </details>
    </li>
  );
}

/** attemptError returns why an attempt failed in words; unknown codes are shown as they are. */
const attemptError = (code: string): string => translated('attempt', code, code);

/** RedeliverAll sends every failed delivery again, one after the other, and can be stopped. */
function RedeliverAll({ site, put }: { site: Site; put(d: DeliveryFields): void }) {
  const [progress, setProgress] = useState<{ done: number; all: number; wait: number }>();
  const stop = useRef<AbortController | undefined>(undefined);
  useEffect(() => () => stop.current?.abort(), []);

  const run = async (): Promise<void> => {
    const failed: string[] = [];
    let after: string | null = null;
    do {
      const page: Site['deliveries'] | undefined = (await failedDeliveries({ id: site.id, after })).site
        ?.deliveries as Site['deliveries'];
      failed.push(...(page?.edges ?? []).filter(({ node }) => node.state === 'FAILED').map(({ node }) => node.id));
      after = page?.pageInfo.hasNextPage ? page.pageInfo.endCursor : null;
    } while (after && failed.length < 1000);
    if (failed.length === 0) return announce(t('webhooks.noFailed'));

    // The button, which would show errors, is replaced by the progress.
    const { signal } = (stop.current = new AbortController());
    const errors = new Set<string>();
    try {
      for (const [done, deliveryId] of failed.entries()) {
        const now = { done, all: failed.length };
        setProgress({ ...now, wait: 0 });
        const again = async (): Promise<void> => {
          const payload = (await redeliver({ input: { deliveryId } })).redeliver;
          if (payload?.delivery) put(payload.delivery);
          payload?.userErrors.forEach((error) => errors.add(userErrorText(error)));
        };
        await patiently(again, (wait) => setProgress({ ...now, wait }), signal);
        if (signal.aborted) break;
      }
    } catch (error) {
      if (!signal.aborted) errors.add(error instanceof Failure ? failureText(error) : String(error));
    } finally {
      setProgress(undefined);
    }
    if (errors.size > 0) announce([...errors].join(' '));
  };

  if (!progress) return <Action run={run}>{t('webhooks.againAll')}</Action>;
  return (
    <>
      <progress max={progress.all} value={progress.done} aria-label={t('webhooks.againAll')} />
      <Progress
        text={`${exact(progress.done)} / ${exact(progress.all)}`}
        wait={progress.wait}
        stop={() => stop.current!.abort()}
      />
    </>
  );
}
