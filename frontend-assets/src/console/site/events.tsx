// The events of a site: registered, automatic and e-commerce, and which are key events.
import type { UserError } from '../core/api';
import { useQuery } from '../core/data';
import { Action } from '../core/dialog';
import { Field, Form, type Values } from '../core/form';
import { exact, utcDay } from '../core/format';
import { t, type TextKey } from '../core/language';
import { Missing } from '../core/states';
import { mayEdit } from '../core/store';
import { Section, Table } from '../core/ui';
import {
  eventCounts,
  events,
  markKeyEvent,
  registerEvent,
  unmarkKeyEvent,
  unregisterEvent,
  type EventRows,
  type EventsData,
  type EventsFields,
} from '../operations';
import { SettingsPage } from '../parts/settings';

const automatic = ['outbound_click', 'file_download', 'scroll', 'site_search'];
const ecommerce = ['view_item', 'add_to_cart', 'begin_checkout', 'purchase', 'refund'];
const maxRegistered = 50;

/** lastSeen lists the reports of event counts, the latest one first, and periods their texts. */
const lastSeen = ['today', 'yesterday', 'week', 'month'] as const;
const periods: Record<(typeof lastSeen)[number], TextKey> = {
  today: 'period.today',
  yesterday: 'period.yesterday',
  week: 'period.7d',
  month: 'period.30d',
};

interface Payload {
  site: EventsFields | null;
  userErrors: UserError[];
}

/** Events lists every event that the site accepts. */
export function Events({ id }: { id: string }) {
  const query = useQuery(events, { id });
  const counts = useQuery(eventCounts, { id });
  const edit = mayEdit();
  const day = countsOf(counts.data?.site?.today);
  const month = countsOf(counts.data?.site?.month);
  const seen = (name: string): string => {
    if (!day || !month) return '–';
    const last = lastSeen.find((part) => countsOf(counts.data?.site?.[part])?.get(name));
    return last ? t(periods[last]) : t('events.notSeen');
  };
  const counted = (found: Map<string, number> | undefined, name: string): string =>
    found ? exact(found.get(name) ?? 0) : '–';

  return (
    <SettingsPage id={id} query={query} title={t('events.title')}>
      {(data: EventsData) => {
        const { site } = data;
        if (!site) return <Missing />;

        const show = (payload: Payload | null): UserError[] => {
          if (payload?.site) query.set({ ...data, site: { ...site, ...payload.site } });
          return payload?.userErrors ?? [];
        };
        const register = async ({ name = '' }: Values): Promise<UserError[]> =>
          show((await registerEvent({ input: { siteId: id, name: name.trim() } })).registerEvent);

        const rows = (names: string[], removable = false) =>
          names.map((name) => (
            <tr key={name}>
              <th scope="row">
                <code>{name}</code>
              </th>
              <td>{seen(name)}</td>
              <td class="number">{counted(day, name)}</td>
              <td class="number">{counted(month, name)}</td>
              <td><KeySwitch name={name} siteId={id} marked={site.keyEvents.includes(name)} edit={edit} show={show} /></td>
              {removable && edit && (
                <td class="number">
                  <Action
                    label={t('events.removeNamed', { name })}
                    done={t('events.removed', { name })}
                    run={async () => show((await unregisterEvent({ input: { siteId: id, name } })).unregisterEvent)}
                  >
                    {t('events.remove')}
                  </Action>
                </td>
              )}
            </tr>
          ));
        const head = [t('events.name'), t('events.seen'), t('events.today'), t('events.month'), t('events.key')];

        return (
          <>
            {site.unknownEvents.length > 0 && (
              <Unknown
                list={site.unknownEvents}
                edit={edit && site.registeredEvents.length < maxRegistered}
                register={async (name) => show((await registerEvent({ input: { siteId: id, name } })).registerEvent)}
              />
            )}
            <Section
              title={t('events.registered')}
              hint={t('events.registeredHint', { n: site.registeredEvents.length, max: maxRegistered })}
            >
              {site.registeredEvents.length > 0 && (
                <Table label={t('events.registered')} head={edit ? [...head, t('events.action')] : head}>
                  {rows(site.registeredEvents, true)}
                </Table>
              )}
              {edit && site.registeredEvents.length < maxRegistered && (
                <Form
                  key={site.registeredEvents.length}
                  submit={t('events.register')}
                  onSubmit={register}
                  class="row"
                  label={t('events.register')}
                >
                  <Field name="name" label={t('events.name')} hint={t('events.nameHint')} placeholder="sign-up" maxLength={48} required />
                </Form>
              )}
            </Section>
            <Section title={t('events.automatic')} hint={site.automaticEvents ? t('events.automaticHint') : t('events.automaticOff')}>
              {site.automaticEvents && (
                <Table label={t('events.automatic')} head={head}>
                  {rows(automatic.filter((name) => name !== 'site_search' || site.measureSiteSearch))}
                </Table>
              )}
            </Section>
            <Section title={t('events.ecommerce')} hint={site.measureEcommerce ? t('events.ecommerceHint') : t('events.ecommerceOff')}>
              {site.measureEcommerce ? (
                <Table label={t('events.ecommerce')} head={head}>{rows(ecommerce)}</Table>
              ) : (
                <p>
                  <a href={`/sites/${id}/measurement`}>{t('settings.title')}</a>
                </p>
              )}
            </Section>
          </>
        );
      }}
    </SettingsPage>
  );
}

/** countsOf returns the number of events of each name; undefined without a report. */
function countsOf(report: EventRows | null | undefined): Map<string, number> | undefined {
  return report?.breakdown
    ? new Map(report.breakdown.edges.map(({ node }) => [node.value, node.metrics.events]))
    : undefined;
}

/** Unknown lists the names that were refused, with a button that registers each. */
function Unknown(props: {
  list: EventsFields['unknownEvents'];
  edit: boolean;
  register(name: string): Promise<UserError[]>;
}) {
  const head = [
    t('events.name'),
    t('events.refused'),
    t('events.lastSeen'),
    ...(props.edit ? [t('events.action')] : []),
  ];
  return (
    <Section title={t('events.unknown')} hint={t('events.unknownHint')}>
      <Table label={t('events.unknown')} head={head}>
        {props.list.map(({ name, count, lastDay }) => (
          <tr key={name}>
            <th scope="row">
              <code>{name}</code>
            </th>
            <td class="number">{exact(count)}</td>
            <td>{utcDay(lastDay)}</td>
            {props.edit && (
              <td class="number">
                <Action
                  label={t('events.registerNamed', { name })}
                  done={t('events.isRegistered', { name })}
                  run={() => props.register(name)}
                >
                  {t('events.register')}
                </Action>
              </td>
            )}
          </tr>
        ))}
      </Table>
    </Section>
  );
}

/** KeySwitch marks an event as a key event. A purchase always is a key event. */
function KeySwitch(props: {
  name: string;
  siteId: string;
  marked: boolean;
  edit: boolean;
  show(payload: Payload | null): UserError[];
}) {
  const { name, siteId, marked } = props;
  if (!props.edit || name === 'purchase') return <>{marked ? t('events.isKey') : '–'}</>;

  const input = { siteId, name };
  return (
    <Action
      label={marked ? t('events.unmarkNamed', { name }) : t('events.markNamed', { name })}
      run={async () =>
        props.show(
          marked ? (await unmarkKeyEvent({ input })).unmarkKeyEvent : (await markKeyEvent({ input })).markKeyEvent,
        )
      }
    >
      {marked ? '★ ' + t('events.isKey') : '☆ ' + t('events.mark')}
    </Action>
  );
}
