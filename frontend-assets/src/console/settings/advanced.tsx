// The server secret of a site, and what ends or moves it.
import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import type { UserError } from '../core/api';
import { usePolling } from '../core/data';
import { Action, Confirm } from '../core/dialog';
import { Field, Form, type Values } from '../core/form';
import { exact } from '../core/format';
import { t } from '../core/language';
import { go } from '../core/router';
import { announce, isOwner } from '../core/store';
import {
  deleteSite,
  deleteUserData,
  erasure,
  pauseSite,
  resumeSite,
  revokeServerSecret,
  revokeOldServerSecret,
  rotateServerSecret,
  transferSite,
  type ErasureFields,
} from '../operations';
import { Secret } from '../parts/copy';
import { Group } from '../parts/group';
import { KeepOld, OldSecret } from '../parts/secret';
import { Transfer } from '../parts/transfer';
import { SiteSettings, type SettingsProps } from './form';

/** Advanced has a line for each action. */
export function Advanced({ id }: { id: string }) {
  return (
    <SiteSettings id={id} title={t('advanced.title')} lead={t('advanced.lead')}>
      {(parts) => {
        const { site, edit } = parts;
        const move = async (toAccountId: string): Promise<UserError[]> =>
          (await transferSite({ input: { siteId: site.id, toAccountId } })).transferSite?.userErrors ?? [];
        return (
          <>
            <ServerSecret {...parts} />
            {edit && site.allowPseudonymousUserId && <Erasure {...parts} />}
            {edit && <Pause {...parts} />}
            {isOwner() && <Transfer name={site.domain} hint={t('transfer.siteHint')} from={site.accountId} to="/" run={move} />}
            {isOwner() && <Delete {...parts} />}
          </>
        );
      }}
    </SiteSettings>
  );
}

function ServerSecret({ site, show, edit }: SettingsProps) {
  const [secret, setSecret] = useState('');
  const create = async ({ keepOldFor = '0' }: Values = {}): Promise<UserError[]> => {
    const input = { siteId: site.id, keepOldFor: Number(keepOldFor) };
    const payload = (await rotateServerSecret({ input })).rotateServerSecret;
    setSecret(payload?.serverSecret ?? '');
    return show(payload);
  };
  const { serverSecretHint: hint, oldServerSecretHint, oldServerSecretValidUntil } = site;
  const input = { siteId: site.id };
  const revokeOld = async (): Promise<UserError[]> => show((await revokeOldServerSecret({ input })).revokeOldServerSecret);
  const revoke = async (): Promise<UserError[]> => show((await revokeServerSecret({ input })).revokeServerSecret);
  const confirm = (action: 'Rotate' | 'Revoke', run: (values: Values) => Promise<UserError[]>, more?: ComponentChildren) => {
    const text = t(`settings.secret${action}`);
    return (
      <Confirm button={text} title={text} text={t(`settings.secret${action}Text`)} name={site.domain} run={run}>{more}</Confirm>
    );
  };
  const state = hint ? t('settings.secretEnds', { hint }) : t('settings.secretNone');
  return (
    <section>
      <Group line title={t('settings.secret')} hint={`${t('settings.secretHint')} ${secret ? '' : state}`}>
        {edit && !secret && !hint && <Action run={() => create()}>{t('settings.secretCreate')}</Action>}
        {edit && !secret && hint && [confirm('Rotate', create, <KeepOld />), confirm('Revoke', revoke)]}
      </Group>
      {secret && <Secret text={secret} label={t('settings.secret')} onDone={() => setSecret('')} />}
      <OldSecret hint={oldServerSecretHint} until={oldServerSecretValidUntil} revoke={edit ? revokeOld : undefined} />
    </section>
  );
}

/** Erasure deletes the data of one pseudonymous user id, and shows the progress. */
function Erasure({ site }: SettingsProps) {
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
  return (
    <Group title={t('erasure.title')} hint={t('erasure.hint')}>
      <Form submit={t('erasure.submit')} onSubmit={erase} class="row" danger label={t('erasure.title')}>
        <Field name="userId" label={t('erasure.userId')} minLength={64} maxLength={64} required />
      </Form>
      {state && (
        <p role="status">
          {state.finishedAt ? t('erasure.done') : t('erasure.running')}{' '}
          {t('erasure.counts', { visits: exact(state.visits), pageviews: exact(state.pageviews), events: exact(state.events) })}
        </p>
      )}
    </Group>
  );
}

/** Pause stops and resumes the site's hits. */
function Pause({ site, show }: SettingsProps) {
  const paused = site.state === 'PAUSED';
  const input = { siteId: site.id };
  const run = async (): Promise<UserError[]> =>
    show(paused ? (await resumeSite({ input })).resumeSite : (await pauseSite({ input })).pauseSite);
  return (
    <Group line title={t('settings.pause')} hint={t(paused ? 'settings.paused' : 'settings.pauseHint')}>
      <Action run={run}>{paused ? t('settings.resume') : t('settings.pause')}</Action>
    </Group>
  );
}

function Delete({ site }: SettingsProps) {
  const run = async ({ confirm = '' }: Values): Promise<UserError[]> => {
    const errors = (await deleteSite({ input: { siteId: site.id, confirm } })).deleteSite?.userErrors ?? [];
    if (errors.length === 0) {
      announce(t('settings.deleted', { name: site.name }));
      go('/deleted');
    }
    return errors;
  };
  const title = t('settings.delete');
  return (
    <Group line title={title} hint={t('settings.deleteHint')}>
      <Confirm button={title} title={title} text={t('settings.deleteText')} name={site.domain} run={run} />
    </Group>
  );
}
