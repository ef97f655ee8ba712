// The events of a site: registered, automatic and e-commerce, and which are key events.
import {
  Action,
  Field,
  Form,
  Loaded,
  mayEdit,
  Missing,
  Section,
  SiteHeader,
  t,
  Table,
  useQuery,
  type UserError,
  type Values,
} from '../core';
import {
  events,
  markKeyEvent,
  registerEvent,
  unmarkKeyEvent,
  unregisterEvent,
  type EventsData,
  type EventsFields,
} from '../operations';

const automatic = ['outbound_click', 'file_download', 'scroll', 'site_search'];
const ecommerce = ['view_item', 'add_to_cart', 'begin_checkout', 'purchase', 'refund'];
const maxRegistered = 50;

interface Payload {
  site: EventsFields | null;
  userErrors: UserError[];
}

/** Events lists every event that the site accepts. */
export function Events({ id }: { id: string }) {
  const query = useQuery(events, { id });
  const edit = mayEdit();

  return (
    <Loaded query={query} title={t('events.title')}>
      {(data: EventsData) => {
        const { site } = data;
        if (!site) return <Missing />;

        const show = (payload: Payload | null): UserError[] => {
          if (payload?.site) query.set({ ...data, site: { ...site, ...payload.site } });
          return payload?.userErrors ?? [];
        };
        const register = async ({ name = '' }: Values): Promise<UserError[]> =>
          show((await registerEvent({ input: { siteId: id, name: name.trim() } })).registerEvent);

        const unknown = site.rejections.filter((r) => r.code === 'unknown_event').reduce((sum, r) => sum + r.count, 0);
        const rows = (names: string[], removable = false) =>
          names.map((name) => (
            <tr key={name}>
              <th scope="row">
                <code>{name}</code>
              </th>
              <td>
                <KeySwitch name={name} siteId={id} marked={site.keyEvents.includes(name)} edit={edit} show={show} />
              </td>
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
        const head = [t('events.name'), t('events.key')];

        return (
          <>
            <SiteHeader site={site} title={t('events.title')} />
            {unknown > 0 && (
              <p class="notice">
                {t('events.unknown', { n: unknown })} <a href={`/sites/${id}/rejections`}>{t('rejections.title')}</a>
              </p>
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
                  <Field
                    name="name"
                    label={t('events.name')}
                    hint={t('events.nameHint')}
                    placeholder="sign-up"
                    maxLength={48}
                    required
                  />
                </Form>
              )}
            </Section>
            <Section
              title={t('events.automatic')}
              hint={site.automaticEvents ? t('events.automaticHint') : t('events.automaticOff')}
            >
              {site.automaticEvents && (
                <Table label={t('events.automatic')} head={head}>
                  {rows(automatic.filter((name) => name !== 'site_search' || site.measureSiteSearch))}
                </Table>
              )}
            </Section>
            <Section
              title={t('events.ecommerce')}
              hint={site.measureEcommerce ? t('events.ecommerceHint') : t('events.ecommerceOff')}
            >
              {site.measureEcommerce ? (
                <Table label={t('events.ecommerce')} head={head}>
                  {rows(ecommerce)}
                </Table>
              ) : (
                <p>
                  <a href={`/sites/${id}/settings`}>{t('settings.title')}</a>
                </p>
              )}
            </Section>
          </>
        );
      }}
    </Loaded>
  );
}

/** KeySwitch marks an event as a key event. A purchase always is one. */
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
