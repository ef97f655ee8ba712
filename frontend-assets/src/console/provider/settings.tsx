// The settings of an account's OpenID Connect provider, for its owners.
import { useState } from 'preact/hooks';
import type { UserError } from '../core/api';
import { useQuery } from '../core/data';
import { Action } from '../core/dialog';
import { Field, Form, Password, Select, TextArea, type Values } from '../core/form';
import { date } from '../core/format';
import { t } from '../core/language';
import { Loaded } from '../core/states';
import { announce, chosenAccount, isOwner } from '../core/store';
import { Section } from '../core/ui';
import { Check } from '../parts/check';
import { Code } from '../parts/copy';
import { AccountPage } from '../parts/menu';
import {
  accountProvider,
  deleteAccountProvider,
  setAccountProvider,
  verifyProviderDomain,
  type AccountProviderData,
  type Role,
} from '../operations';

type Shown = NonNullable<NonNullable<AccountProviderData['account']>['provider']>;

/** roleLines returns the roles of a claim's values as lines. */
const roleLines = (provider: Shown | null): string =>
  (provider?.roles ?? []).map(({ value, role }) => `${value} = ${role}`).join('\n');

/** rolesOf reads roleLines. An unknown role fails at the server. */
const rolesOf = (text: string): { value: string; role: Role }[] =>
  text
    .split('\n')
    .filter((line) => line.trim())
    .map((line) => {
      const at = line.lastIndexOf('=');
      return { value: line.slice(0, at).trim(), role: line.slice(at + 1).trim().toUpperCase() as Role };
    });

/** withIssuer explains that the provider calls itself otherwise: the server's message quotes its name. */
const withIssuer = (e: UserError): UserError => {
  const issuer = e.message.split('"')[1];
  return e.code === 'OTHER_ISSUER' && issuer ? { ...e, message: t('provider.otherIssuer', { issuer }) } : e;
};

/** hasRoles reports whether each line of roles has a role. */
const hasRoles = (roles: { role: string }[]): boolean => roles.every(({ role }) => ['OWNER', 'MEMBER', 'VIEWER'].includes(role));

/** Provider shows the provider of the chosen account and changes it. */
export function Provider() {
  const query = useQuery(accountProvider, { account: chosenAccount() });
  return (
    <AccountPage title={t('provider.title')}>
      <p class="lead">{t('provider.hint')}</p>
      <Loaded query={query}>
        {({ account }) =>
          account &&
          (isOwner() ? (
            <>
              {account.provider && <Domain provider={account.provider} changed={query.reload} />}
              <Settings
                provider={account.provider}
                redirect={account.providerRedirectUrl}
                required={account.requireProvider}
                changed={query.reload}
              />
              {account.provider && <Remove changed={query.reload} />}
            </>
          ) : (
            <p class="notice">{t('provider.ownersOnly')}</p>
          ))
        }
      </Loaded>
    </AccountPage>
  );
}

type Changed = () => Promise<unknown>;

/** Domain shows what the owner enters in the DNS. */
function Domain({ provider, changed }: { provider: Shown; changed: Changed }) {
  const verify = async (): Promise<UserError[]> => {
    const errors = (await verifyProviderDomain({ input: { accountId: chosenAccount() } })).verifyProviderDomain?.userErrors ?? [];
    if (errors.length === 0) {
      announce(t('provider.verified', { day: date(new Date().toISOString()) }));
      await changed();
    }
    return errors;
  };
  return (
    <Section
      title={t('provider.domainTitle', { domain: provider.domain })}
      hint={provider.domainVerifiedAt ? t('provider.verified', { day: date(provider.domainVerifiedAt) }) : t('provider.unverified')}
    >
      {provider.recordMissingSince && <p class="notice">{t('provider.missing', { day: date(provider.recordMissingSince) })}</p>}
      <p>{t('provider.record')}</p>
      <Code text={provider.recordName} label={t('provider.recordName')} />
      <Code text={provider.recordText} label={t('provider.recordText')} />
      <p>
        <Action run={verify}>{t('provider.verify')}</Action>
      </p>
    </Section>
  );
}

type SettingsProps = { provider: Shown | null; redirect: string | null; required: boolean; changed: Changed };

function Settings({ provider, redirect, required, changed }: SettingsProps) {
  // Each save makes a new form, so that neither the secret nor the password stays on the page.
  const [saves, setSaves] = useState(0);
  const save = async (values: Values): Promise<UserError[]> => {
    const roles = rolesOf(values['roles'] ?? '');
    if (!hasRoles(roles)) return [{ field: ['input', 'roles'], code: 'INVALID_ROLE_LINE', message: t('provider.badRoles') }];

    const input = {
      accountId: chosenAccount(),
      password: values['password'] ?? '',
      issuer: values['issuer'] ?? '',
      clientId: values['clientId'] ?? '',
      clientSecret: values['clientSecret'] || null,
      domain: values['domain'] ?? '',
      defaultRole: (values['defaultRole'] ?? 'VIEWER') as Role,
      trustsEmails: values['trustsEmails'] === 'on',
      roleClaim: values['roleClaim'] || null,
      roles,
      required: values['required'] === 'on',
    };
    const errors = (await setAccountProvider({ input })).setAccountProvider?.userErrors ?? [];
    if (errors.length === 0) {
      announce(t('saved'));
      await changed();
      setSaves(saves + 1);
    }
    return errors.map(withIssuer);
  };
  return (
    <Section title={t('provider.settings')}>
      <p>{t('provider.redirect')}</p>
      {redirect && <Code text={redirect} label={t('provider.redirectLabel')} />}
      <Form key={saves} submit={t('save')} onSubmit={save} class="column">
        <Field name="issuer" type="url" label={t('provider.issuer')} value={provider?.issuer ?? ''} required maxLength={500} />
        <Field name="clientId" label={t('provider.clientId')} value={provider?.clientId ?? ''} required maxLength={500} />
        <Field
          name="clientSecret"
          label={t('provider.clientSecret')}
          hint={provider ? t('provider.secretKept') : undefined}
          required={!provider}
          maxLength={500}
          autoComplete="off"
        />
        <Field name="domain" label={t('provider.domain')} hint={t('provider.domainHint')} value={provider?.domain ?? ''} required />
        <Check
          name="trustsEmails"
          label={t('provider.trustsEmails')}
          hint={t('provider.trustsEmailsHint')}
          checked={provider?.trustsEmails ?? false}
        />
        <Select
          name="defaultRole"
          label={t('provider.defaultRole')}
          value={provider?.defaultRole ?? 'VIEWER'}
          options={[
            ['VIEWER', t('provider.viewer')],
            ['MEMBER', t('provider.member')],
          ]}
        />
        <Field
          name="roleClaim"
          label={t('provider.roleClaim')}
          hint={t('provider.roleClaimHint')}
          value={provider?.roleClaim ?? ''}
          maxLength={100}
        />
        <TextArea name="roles" label={t('provider.roles')} hint={t('provider.rolesHint')} value={roleLines(provider)} rows={3} />
        {provider?.domainVerifiedAt && (
          <Check name="required" label={t('provider.required')} hint={t('provider.requiredHint')} checked={required} />
        )}
        <Password name="password" label={t('password.current')} autoComplete="current-password" required />
      </Form>
    </Section>
  );
}

function Remove({ changed }: { changed: Changed }) {
  const remove = async ({ password = '' }: Values): Promise<UserError[]> => {
    const payload = (await deleteAccountProvider({ input: { accountId: chosenAccount(), password } })).deleteAccountProvider;
    const errors = payload?.userErrors ?? [];
    if (errors.length === 0) {
      announce(t('provider.removed'));
      await changed();
    }
    return errors;
  };
  return (
    <Section title={t('provider.remove')} hint={t('provider.removeHint')}>
      <Form submit={t('provider.remove')} danger onSubmit={remove} class="column">
        <Password name="password" label={t('password.current')} autoComplete="current-password" required />
      </Form>
    </Section>
  );
}
