// The user's second factors, and the rule that an account requires one.
import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import type { UserError } from '../core/api';
import { useQuery } from '../core/data';
import { Dialog } from '../core/dialog';
import { Field, Form, Password, type Values } from '../core/form';
import { date } from '../core/format';
import { t } from '../core/language';
import { Loaded } from '../core/states';
import { accountOf, announce, chosenAccount, isOwner } from '../core/store';
import { Section, Table, Time, Title } from '../core/ui';
import { Check } from '../parts/check';
import { Code, Secret } from '../parts/copy';
import { save } from '../parts/save';
import {
  confirmTotp,
  deletePasskey,
  disableTotp,
  finishPasskeyRegistration,
  renamePasskey,
  renewRecoveryCodes,
  secondFactorMembers,
  security,
  setAccountSecurity,
  startPasskeyRegistration,
  startTotp,
  type SecurityData,
  type StartTotpData,
} from '../operations';
import { createPasskey, withPasskey } from './webauthn';

type User = NonNullable<SecurityData['viewer']>;
type Factors = NonNullable<User['secondFactors']>;
type Setup = NonNullable<StartTotpData['startTotp']>;

/** Security shows the user's second factors and changes them. */
export function Security() {
  const query = useQuery(security, {});
  const [codes, setCodes] = useState<string[]>([]);

  /** changed shows new recovery codes, and reads the second factors again. */
  const changed = async (made: string[] = []): Promise<void> => {
    if (made.length > 0) setCodes(made);
    await query.reload();
  };

  return (
    <>
      <Title text={t('nav.security')} />
      <p class="lead">{t('security.hint')}</p>
      {codes.length > 0 && <NewCodes codes={codes} onDone={() => setCodes([])} />}
      <Loaded query={query}>
        {({ viewer: user, passkeySignIn }) => {
          const factors = user?.secondFactors;
          if (!user || !factors) return null;
          return (
            <>
              {user.account.requireSecondFactor && !user.hasSecondFactor && (
                <p class="notice bad">{t('security.required', { account: user.account.name })}</p>
              )}
              <App factors={factors} changed={changed} />
              <Passkeys factors={factors} offered={!!passkeySignIn} changed={changed} />
              {user.hasSecondFactor && <RecoveryCodes left={factors.recoveryCodesLeft} changed={changed} />}
              {isOwner(user) && <Requirement user={user} />}
            </>
          );
        }}
      </Loaded>
    </>
  );
}

/** NewCodes shows new recovery codes once. It asks before the page is left while they are neither copied nor saved. */
function NewCodes({ codes, onDone }: { codes: string[]; onDone(): void }) {
  const [kept, setKept] = useState(false);
  const text = codes.join('\n');

  useEffect(() => {
    if (kept) return undefined;

    const unload = (event: Event): void => event.preventDefault();
    const follow = (event: Event): void => {
      const link = event.target instanceof Element && event.target.closest('a');
      if (!link || link.download || confirm(t('recovery.leave'))) return;
      event.preventDefault();
      event.stopPropagation();
    };
    addEventListener('beforeunload', unload);
    addEventListener('click', follow, true);
    return () => {
      removeEventListener('beforeunload', unload);
      removeEventListener('click', follow, true);
    };
  }, [kept]);

  const download = (): void => save(new Blob([text + '\n'], { type: 'text/plain' }), 'tallygate-recovery-codes.txt');
  return (
    <div onClick={(e) => setKept(kept || !!(e.target as Element).closest('button'))}>
      <Secret text={text} label={t('recovery.new')} onDone={onDone} />
      <p>
        <button type="button" class="small" onClick={download}>
          {t('recovery.download')}
        </button>
      </p>
    </div>
  );
}

type Changed = (codes?: string[]) => Promise<void>;

/** WithPassword is a button. Its dialog asks for the password and then runs a change. */
function WithPassword(props: {
  button: string;
  label?: string;
  text: string;
  danger?: boolean;
  children?: ComponentChildren;
  run(password: string, values: Values): Promise<UserError[]>;
}) {
  const [open, setOpen] = useState(false);
  const run = async (values: Values): Promise<UserError[]> => {
    const errors = await props.run(values['password'] ?? '', values);
    if (errors.length === 0) setOpen(false);
    return errors;
  };
  return (
    <>
      <button
        type="button"
        class={props.danger ? 'small danger' : 'small'}
        aria-label={props.label}
        onClick={() => setOpen(true)}
      >
        {props.button}
      </button>
      {open && (
        <Dialog title={props.label ?? props.button} onClose={() => setOpen(false)}>
          <p>{props.text}</p>
          <Form submit={props.button} danger={!!props.danger} onSubmit={run}>
            {props.children}
            <Password
              name="password"
              label={t('password.current')}
              autoComplete="current-password"
              required
              autoFocus={!props.children}
            />
          </Form>
        </Dialog>
      )}
    </>
  );
}

/** App is the section of the authenticator app. */
function App({ factors, changed }: { factors: Factors; changed: Changed }) {
  const [setup, setSetup] = useState<Setup>();

  const start = async (password: string): Promise<UserError[]> => {
    const payload = (await startTotp({ input: { password } })).startTotp;
    if (payload?.secret) setSetup(payload);
    return payload?.userErrors ?? [];
  };
  const confirm = async ({ code = '' }: Values): Promise<UserError[]> => {
    const payload = (await confirmTotp({ input: { code } })).confirmTotp;
    if (payload?.viewer) {
      setSetup(undefined);
      announce(t('totp.done'));
      await changed(payload.recoveryCodes);
    }
    return payload?.userErrors ?? [];
  };
  const remove = async (password: string): Promise<UserError[]> => {
    const errors = (await disableTotp({ input: { password } })).disableTotp?.userErrors ?? [];
    if (errors.length === 0) {
      announce(t('totp.removed'));
      await changed();
    }
    return errors;
  };

  return (
    <Section
      title={t('totp.title')}
      hint={factors.totpSince ? t('totp.since', { day: date(factors.totpSince) }) : t('totp.hint')}
    >
      {setup?.qrCode && setup.secret ? (
        <>
          <p>{t('totp.scan')}</p>
          <svg
            class="qr"
            role="img"
            aria-label={t('totp.qr')}
            viewBox={`-4 -4 ${setup.qrCode.size + 8} ${setup.qrCode.size + 8}`}
          >
            <path d={setup.qrCode.path} />
          </svg>
          <p>{t('totp.type')}</p>
          <Code text={setup.secret} label={t('totp.secret')} />
          <Form submit={t('totp.confirm')} onSubmit={confirm} class="row" label={t('totp.title')}>
            <Field
              name="code"
              label={t('totp.code')}
              hint={t('totp.codeHint')}
              autoComplete="one-time-code"
              required
              autoFocus
              maxLength={10}
            />
          </Form>
        </>
      ) : (
        <p class="inline">
          <WithPassword
            button={t(factors.totpSince ? 'totp.replace' : 'totp.start')}
            text={t(factors.totpSince ? 'totp.replaceText' : 'totp.startText')}
            run={start}
          />
          {factors.totpSince && (
            <WithPassword danger button={t('totp.remove')} text={t('totp.removeText')} run={remove} />
          )}
        </p>
      )}
    </Section>
  );
}

/** Passkeys lists the passkeys and adds one. */
function Passkeys({ factors, offered, changed }: { factors: Factors; offered: boolean; changed: Changed }) {
  const add = (password: string, { name = '' }: Values): Promise<UserError[]> =>
    withPasskey(async () => {
      const started = (await startPasskeyRegistration({ input: { password } })).startPasskeyRegistration;
      if (!started?.request) return started?.userErrors ?? [];

      const credential = await createPasskey(started.request.options);
      const input = { challenge: started.request.challenge, credential, name };
      const payload = (await finishPasskeyRegistration({ input })).finishPasskeyRegistration;
      if (payload?.passkey) {
        announce(t('passkey.added', { name: payload.passkey.name }));
        await changed(payload.recoveryCodes);
      }
      return payload?.userErrors ?? [];
    });

  return (
    <Section title={t('passkey.title')} hint={t('passkey.hint')}>
      {factors.passkeys.length > 0 && (
        <Table
          label={t('passkey.title')}
          head={[t('passkey.name'), t('passkey.created'), t('passkey.lastUsed'), t('passkey.action')]}
        >
          {factors.passkeys.map((key) => (
            <tr key={key.id}>
              <th scope="row">{key.name}</th>
              <td>{date(key.createdAt)}</td>
              <td>{key.lastUsedAt ? <Time at={key.lastUsedAt} /> : t('passkey.unused')}</td>
              <td class="number">
                <span class="inline">
                  <Rename passkey={key} changed={changed} />
                  <WithPassword
                    danger
                    button={t('passkey.delete')}
                    label={t('passkey.deleteNamed', { name: key.name })}
                    text={t('passkey.deleteText')}
                    run={async (password) => {
                      const errors =
                        (await deletePasskey({ input: { passkeyId: key.id, password } })).deletePasskey?.userErrors ?? [];
                      if (errors.length === 0) await changed();
                      return errors;
                    }}
                  />
                </span>
              </td>
            </tr>
          ))}
        </Table>
      )}
      {offered ? (
        <p>
          <WithPassword button={t('passkey.add')} text={t('passkey.addText')} run={add}>
            <Field name="name" label={t('passkey.name')} hint={t('passkey.nameHint')} required maxLength={100} autoFocus />
          </WithPassword>
        </p>
      ) : (
        <p class="notice">{t('passkey.unavailable')}</p>
      )}
    </Section>
  );
}

function Rename({ passkey, changed }: { passkey: Factors['passkeys'][number]; changed: Changed }) {
  const [open, setOpen] = useState(false);
  const rename = async ({ name = '' }: Values): Promise<UserError[]> => {
    const errors = (await renamePasskey({ input: { passkeyId: passkey.id, name } })).renamePasskey?.userErrors ?? [];
    if (errors.length === 0) {
      setOpen(false);
      await changed();
    }
    return errors;
  };
  return (
    <>
      <button
        type="button"
        class="small"
        aria-label={t('passkey.renameNamed', { name: passkey.name })}
        onClick={() => setOpen(true)}
      >
        {t('passkey.rename')}
      </button>
      {open && (
        <Dialog title={t('passkey.renameNamed', { name: passkey.name })} onClose={() => setOpen(false)}>
          <Form submit={t('save')} onSubmit={rename}>
            <Field name="name" label={t('passkey.name')} value={passkey.name} required maxLength={100} autoFocus />
          </Form>
        </Dialog>
      )}
    </>
  );
}

function RecoveryCodes({ left, changed }: { left: number; changed: Changed }) {
  const renew = async (password: string): Promise<UserError[]> => {
    const payload = (await renewRecoveryCodes({ input: { password } })).renewRecoveryCodes;
    if (payload && payload.userErrors.length === 0) await changed(payload.recoveryCodes);
    return payload?.userErrors ?? [];
  };
  return (
    <Section title={t('recovery.title')} hint={t('recovery.hint')}>
      <p>{t('recovery.left', { n: left })}</p>
      <p>
        <WithPassword button={t('recovery.renew')} text={t('recovery.renewText')} run={renew} />
      </p>
    </Section>
  );
}

/**
 * Requirement shows owners which members of the chosen account lack a second factor, and sets whether the
 * account requires one.
 */
function Requirement({ user }: { user: User }) {
  return (
    <Section title={t('requirement.title', { account: accountOf(user)?.name ?? '' })} hint={t('requirement.hint')}>
      {user.hasSecondFactor ? <RequirementForm /> : <p class="notice">{t('requirement.first')}</p>}
      <p>
        <a href="/provider">{t('requirement.provider')}</a>
      </p>
    </Section>
  );
}

function RequirementForm() {
  const query = useQuery(secondFactorMembers, { account: chosenAccount() });
  const set = async ({ password = '', required }: Values): Promise<UserError[]> => {
    const input = { accountId: chosenAccount(), password, requireSecondFactor: required === 'on' };
    const errors = (await setAccountSecurity({ input })).setAccountSecurity?.userErrors ?? [];
    if (errors.length === 0) {
      announce(t('saved'));
      await query.reload();
    }
    return errors;
  };

  return (
    <Loaded query={query}>
      {({ account }) => {
        if (!account) return null;
        const lacking = account.members.filter((m) => !m.hasSecondFactor).map((m) => m.email);
        return (
          <>
            <p>{lacking.length > 0 ? t('requirement.lacking', { names: lacking.join(', ') }) : t('requirement.all')}</p>
            <Form key={String(account.requireSecondFactor)} submit={t('save')} onSubmit={set} class="column">
              <Check
                name="required"
                label={t('requirement.label')}
                hint={t('requirement.labelHint')}
                checked={account.requireSecondFactor}
              />
              <Password name="password" label={t('password.current')} autoComplete="current-password" required />
            </Form>
          </>
        );
      }}
    </Loaded>
  );
}
