// The settings of a site.
import { useState } from 'preact/hooks';
import type { UserError } from '../core/api';
import { usePolling, useQuery } from '../core/data';
import { Action, Confirm } from '../core/dialog';
import { Field, Form, Select, TextArea, type Values } from '../core/form';
import { date, exact } from '../core/format';
import { t } from '../core/language';
import { go } from '../core/router';
import { Missing } from '../core/states';
import { announce, isOwner, mayEdit } from '../core/store';
import { Section } from '../core/ui';
import { Check } from '../parts/check';
import { Secret } from '../parts/copy';
import {
  addSiteDomain,
  deleteSite,
  deleteUserData,
  erasure,
  pauseSite,
  removeSiteDomain,
  resumeSite,
  revokeServerSecret,
  revokeOldServerSecret,
  rotateServerSecret,
  settings,
  transferSite,
  updateSite,
  type ErasureFields,
} from '../operations';
import { changes } from '../parts/changes';
import { KeepOld, OldSecret } from '../parts/secret';
import { Transfer } from '../parts/transfer';
import { SettingsPage } from '../parts/settings';
import { inLine, linesOf } from './lines';
import { Privacy } from './privacy';
import type { PartProps } from './part';
import { PlanUsage } from './plan';
import { LeftOut, Visitors } from './visitors';
import { zones } from '../parts/zones';

type Site = PartProps['site'];

/** Settings shows one card for each kind of setting. Viewers see them without the buttons. */
export function Settings({ id }: { id: string }) {
  const query = useQuery(settings, { id });
  return (
    <SettingsPage id={id} query={query} title={t('menu.general')}>
      {(data) => {
        const { site } = data;
        if (!site) return <Missing />;

        const show: PartProps['show'] = (payload) => {
          if (payload?.site) {
            query.set({ ...data, site: { ...site, ...payload.site } });
            announce(t('saved'));
          }
          return payload?.userErrors ?? [];
        };
        const parts = { site, installation: data.installation, show, edit: mayEdit() };
        return (
          <>
            {!parts.edit && <p class="notice">{t('readOnly')}</p>}
            <General {...parts} />
            <Domains {...parts} />
            <Visitors {...parts} />
            <Excluded {...parts} />
            <LeftOut {...parts} />
            <Privacy site={site} />
            <ServerSecret {...parts} />
            <Plan site={site} />
            {parts.edit && <Erasure site={site} />}
            {parts.edit && <Pause {...parts} />}
            {isOwner() && (
              <Transfer
                name={site.domain}
                hint={t('transfer.siteHint')}
                from={site.accountId}
                to="/"
                run={async (toAccountId) =>
                  (await transferSite({ input: { siteId: site.id, toAccountId } })).transferSite?.userErrors ?? []
                }
              />
            )}
            {isOwner() && <Delete site={site} />}
          </>
        );
      }}
    </SettingsPage>
  );
}

function General({ site, show, edit }: PartProps) {
  const save = async (values: Values, form: HTMLFormElement): Promise<UserError[]> => {
    const all = {
      name: values['name'] ?? '',
      timeZone: values['timeZone'] ?? site.timeZone,
      automaticEvents: 'automaticEvents' in values,
      measureSiteSearch: 'measureSiteSearch' in values,
      measureEcommerce: 'measureEcommerce' in values,
      allowPseudonymousUserId: 'allowPseudonymousUserId' in values,
    };
    return show((await updateSite({ input: { siteId: site.id, ...changes(form, all) } })).updateSite);
  };
  return (
    <Section title={t('settings.basics')}>
      <Form submit={t('save')} onSubmit={save} class="column" disabled={!edit}>
        <Field name="name" label={t('settings.name')} value={site.name} maxLength={100} required disabled={!edit} />
        <Select
          name="timeZone"
          label={t('settings.timeZone')}
          hint={t('settings.timeZoneHint')}
          value={site.timeZone}
          options={zones(site.timeZone)}
          disabled={!edit}
        />
        <Check
          name="automaticEvents"
          label={t('settings.automatic')}
          hint={t('settings.automaticHint')}
          checked={site.automaticEvents}
          disabled={!edit}
        />
        <Check
          name="measureSiteSearch"
          label={t('settings.search')}
          hint={t('settings.searchHint')}
          checked={site.measureSiteSearch}
          disabled={!edit}
        />
        <Check
          name="measureEcommerce"
          label={t('settings.ecommerce')}
          hint={t('settings.ecommerceHint')}
          checked={site.measureEcommerce}
          disabled={!edit}
        />
        <Check
          name="allowPseudonymousUserId"
          label={t('settings.userId')}
          hint={t('settings.userIdHint')}
          checked={site.allowPseudonymousUserId}
          disabled={!edit}
        />
      </Form>
    </Section>
  );
}

function Domains({ site, show, edit }: PartProps) {
  const add = async ({ domain = '' }: Values): Promise<UserError[]> =>
    show((await addSiteDomain({ input: { siteId: site.id, domain: domain.trim() } })).addSiteDomain);
  return (
    <Section title={t('settings.domains')} hint={t('settings.domainsHint', { domain: site.domain })}>
      <ul class="rows">
        {site.extraDomains.map((domain) => (
          <li key={domain}>
            <code>{domain}</code>
            {edit && (
              <Action
                label={t('settings.removeNamed', { name: domain })}
                run={async () =>
                  show((await removeSiteDomain({ input: { siteId: site.id, domain } })).removeSiteDomain)
                }
              >
                {t('settings.remove')}
              </Action>
            )}
          </li>
        ))}
      </ul>
      {edit && (
        <Form
          key={site.extraDomains.length}
          submit={t('settings.add')}
          onSubmit={add}
          class="row"
          label={t('settings.domains')}
        >
          <Field name="domain" label={t('settings.domain')} placeholder="www.example.org" inputMode="url" required />
        </Form>
      )}
    </Section>
  );
}

function Excluded({ site, show, edit }: PartProps) {
  const save = async (values: Values, form: HTMLFormElement): Promise<UserError[]> => {
    const lines = linesOf(values['excludedAddresses'], /[\s,]/);
    const list = lines.map(({ text }) => text);
    const input = { siteId: site.id, ...changes(form, { excludedAddresses: list }) };
    const errors = show((await updateSite({ input })).updateSite);
    return errors.map((error) => inLine(error, lines));
  };
  return (
    <Section title={t('settings.excluded')} hint={t('settings.excludedHint')}>
      <Form submit={t('save')} onSubmit={save} class="column" disabled={!edit}>
        <TextArea
          name="excludedAddresses"
          label={t('settings.addresses')}
          value={site.excludedAddresses.join('\n')}
          placeholder={'192.0.2.7\n2001:db8::/32'}
          disabled={!edit}
        />
      </Form>
    </Section>
  );
}

function ServerSecret({ site, show, edit }: PartProps) {
  const [secret, setSecret] = useState('');
  const create = async ({ keepOldFor = '0' }: Values = {}): Promise<UserError[]> => {
    const input = { siteId: site.id, keepOldFor: Number(keepOldFor) };
    const payload = (await rotateServerSecret({ input })).rotateServerSecret;
    setSecret(payload?.serverSecret ?? '');
    return show(payload);
  };
  return (
    <Section title={t('settings.secret')} hint={t('settings.secretHint')}>
      {secret && <Secret text={secret} label={t('settings.secret')} onDone={() => setSecret('')} />}
      {!secret && (
        <p>
          {site.serverSecretHint ? t('settings.secretEnds', { hint: site.serverSecretHint }) : t('settings.secretNone')}
        </p>
      )}
      {edit && !secret && (
        <div class="actions">
          {site.serverSecretHint ? (
            <>
              <Confirm
                button={t('settings.secretRotate')}
                title={t('settings.secretRotate')}
                text={t('settings.secretRotateText')}
                name={site.domain}
                run={create}
              >
                <KeepOld />
              </Confirm>
              <Confirm
                button={t('settings.secretRevoke')}
                title={t('settings.secretRevoke')}
                text={t('settings.secretRevokeText')}
                name={site.domain}
                run={async () => show((await revokeServerSecret({ input: { siteId: site.id } })).revokeServerSecret)}
              />
            </>
          ) : (
            <Action run={() => create()}>{t('settings.secretCreate')}</Action>
          )}
        </div>
      )}
      <OldSecret
        hint={site.oldServerSecretHint}
        until={site.oldServerSecretValidUntil}
        revoke={
          edit
            ? async () => show((await revokeOldServerSecret({ input: { siteId: site.id } })).revokeOldServerSecret)
            : undefined
        }
      />
    </Section>
  );
}

function Plan({ site }: { site: Site }) {
  return (
    <Section title={t('settings.plan')} hint={t('settings.planHint')}>
      <p>
        <strong>{site.plan.replace(/_/g, ' ')}</strong>
      </p>
      <PlanUsage usage={site.usage} />
      <p class="hint">
        {t('settings.siteKey')}: <code>{site.siteKey}</code> · {t('settings.created', { date: date(site.createdAt) })}
      </p>
    </Section>
  );
}

/** Erasure deletes the data of one pseudonymous user id, and shows the progress. */
function Erasure({ site }: { site: Site }) {
  const [state, setState] = useState<ErasureFields>();
  usePolling(
    async () => {
      const node = (await erasure({ id: state!.id })).node;
      if (node) setState(node as ErasureFields);
    },
    state && !state.finishedAt ? 2000 : 0,
  );

  const erase = async ({ userId = '' }: Values): Promise<UserError[]> => {
    const payload = (await deleteUserData({ input: { siteId: site.id, userId: userId.trim() } })).deleteUserData;
    if (payload?.erasure) setState(payload.erasure);
    return payload?.userErrors ?? [];
  };
  if (!site.allowPseudonymousUserId) return null;

  return (
    <Section title={t('erasure.title')} hint={t('erasure.hint')}>
      <Form submit={t('erasure.submit')} onSubmit={erase} class="row" danger label={t('erasure.title')}>
        <Field name="userId" label={t('erasure.userId')} minLength={64} maxLength={64} required />
      </Form>
      {state && (
        <p role="status">
          {state.finishedAt ? t('erasure.done') : t('erasure.running')}{' '}
          {t('erasure.counts', {
            visits: exact(state.visits),
            pageviews: exact(state.pageviews),
            events: exact(state.events),
          })}
        </p>
      )}
    </Section>
  );
}

/** Pause stops and resumes the site's hits. */
function Pause({ site, show }: PartProps) {
  const paused = site.state === 'PAUSED';
  const input = { siteId: site.id };
  const run = async (): Promise<UserError[]> =>
    show(paused ? (await resumeSite({ input })).resumeSite : (await pauseSite({ input })).pauseSite);
  return (
    <Section title={t('settings.pause')} hint={t('settings.pauseHint')}>
      {paused && <p class="notice">{t('settings.paused')}</p>}
      <Action run={run}>{paused ? t('settings.resume') : t('settings.pause')}</Action>
    </Section>
  );
}

function Delete({ site }: { site: Site }) {
  const run = async ({ confirm = '' }: Values): Promise<UserError[]> => {
    const errors = (await deleteSite({ input: { siteId: site.id, confirm } })).deleteSite?.userErrors ?? [];
    if (errors.length === 0) {
      announce(t('settings.deleted', { name: site.name }));
      go('/deleted');
    }
    return errors;
  };
  return (
    <Section title={t('settings.delete')} hint={t('settings.deleteHint')} danger>
      <Confirm
        button={t('settings.delete')}
        title={t('settings.delete')}
        text={t('settings.deleteText')}
        name={site.domain}
        run={run}
      />
    </Section>
  );
}
