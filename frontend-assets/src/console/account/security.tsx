// The user's second factors and sessions, and the rule that an account requires one.
import { useEffect, useState } from 'preact/hooks';
import type { UserError } from '../core/api';
import { useQuery } from '../core/data';
import { Action } from '../core/dialog';
import { Field, Form, type Values } from '../core/form';
import { date } from '../core/format';
import { t } from '../core/language';
import { go } from '../core/router';
import { Loaded } from '../core/states';
import { accountOf, announce, chosenAccount, isOwner, viewer } from '../core/store';
import { Time } from '../core/ui';
import { Ask } from '../parts/ask';
import { Check } from '../parts/check';
import { Code, Secret } from '../parts/copy';
import { Group, Row } from '../parts/group';
import { AccountPage } from '../parts/menu';
import { save } from '../parts/save';
import {
  confirmTotp,
  deletePasskey,
  disableTotp,
  finishPasskeyRegistration,
  renamePasskey,
  renewRecoveryCodes,
  revokeSession,
  secondFactorMembers,
  security,
  sessions,
  setAccountSecurity,
  signOut,
  startPasskeyRegistration,
  startTotp,
  type SecurityData,
  type StartTotpData,
} from '../operations';
import { CurrentPassword } from './newpassword';
import { createPasskey, withPasskey } from './webauthn';

type User = NonNullable<SecurityData['viewer']>;
type Factors = NonNullable<User['secondFactors']>;
type Setup = NonNullable<StartTotpData['startTotp']>;

/** Security shows the user's second factors and sessions, and changes them. */
export function Security() {
  const query = useQuery(security, {});
  const [codes, setCodes] = useState<string[]>([]);

  /** changed shows new recovery codes, and reads the second factors again. */
  const changed = async (made: string[] = []): Promise<void> => {
    if (made.length > 0) setCodes(made);
    await query.reload();
  };

  return (
    <AccountPage title={t('nav.security')}>
      {codes.length > 0 && <NewCodes codes={codes} onDone={() => setCodes([])} />}
      <Loaded query={query}>
        {({ viewer: user, passkeySignIn }) => {
          const factors = user?.secondFactors;
          if (!user || !factors) return null;
          return (
            <>
              {user.account.requireSecondFactor && !user.hasSecondFactor ? (
                <p class="notice bad">{t('security.required', { account: user.account.name })}</p>
              ) : (
                <p class={user.hasSecondFactor ? 'notice good' : 'notice'}>{t(user.hasSecondFactor ? 'security.good' : 'security.hint')}</p>
              )}
              <Group title={t('security.factors')}>
                <ul class="rows">
                  <App factors={factors} changed={changed} />
                  <Passkeys factors={factors} offered={!!passkeySignIn} changed={changed} />
                  {user.hasSecondFactor && <RecoveryCodes left={factors.recoveryCodesLeft} changed={changed} />}
                </ul>
              </Group>
              {isOwner(user) && <Requirement user={user} />}
              <Sessions />
            </>
          );
        }}
      </Loaded>
    </AccountPage>
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
        <button type="button" class="small" onClick={download}>{t('recovery.download')}</button>
      </p>
    </div>
  );
}

type Changed = (codes?: string[]) => Promise<void>;

/** App is the section of the authenticator app. */
function App({ factors, changed }: { factors: Factors; changed: Changed }) {
  const [setup, setSetup] = useState<Setup>();

  const start = async ({ password = '' }: Values): Promise<UserError[]> => {
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
  const remove = async ({ password = '' }: Values): Promise<UserError[]> => {
    const errors = (await disableTotp({ input: { password } })).disableTotp?.userErrors ?? [];
    if (errors.length === 0) {
      announce(t('totp.removed'));
      await changed();
    }
    return errors;
  };

  const since = factors.totpSince;
  return (
    <>
      <Row name={t('totp.title')} text={since ? t('totp.since', { day: date(since) }) : t('totp.hint')}>
        {!setup && <Ask button={t(since ? 'totp.replace' : 'totp.start')} text={t(since ? 'totp.replaceText' : 'totp.startText')} run={start}><CurrentPassword autoFocus /></Ask>}
        {!setup && since && <Ask danger button={t('totp.remove')} text={t('totp.removeText')} run={remove}><CurrentPassword autoFocus /></Ask>}
      </Row>
      {setup?.qrCode && setup.secret && (
        <li>
          <div>
            <p>{t('totp.scan')}</p>
            <svg class="qr" role="img" aria-label={t('totp.qr')} viewBox={`-4 -4 ${setup.qrCode.size + 8} ${setup.qrCode.size + 8}`}>
              <path d={setup.qrCode.path} />
            </svg>
            <p>{t('totp.type')}</p>
            <Code text={setup.secret} label={t('totp.secret')} />
            <Form submit={t('totp.confirm')} onSubmit={confirm} class="row" label={t('totp.title')}>
              <Field name="code" label={t('totp.code')} hint={t('totp.codeHint')} autoComplete="one-time-code" required autoFocus maxLength={10} />
            </Form>
          </div>
        </li>
      )}
    </>
  );
}

/** Passkeys lists the passkeys and adds one. */
function Passkeys({ factors, offered, changed }: { factors: Factors; offered: boolean; changed: Changed }) {
  const add = ({ password = '', name = '' }: Values): Promise<UserError[]> =>
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

  const nameField = (value = '') => <Field name="name" label={t('passkey.name')} hint={t('passkey.nameHint')} value={value} required maxLength={100} autoFocus />;
  const after = async (payload: { userErrors: UserError[] } | null): Promise<UserError[]> => {
    if (payload?.userErrors.length === 0) await changed();
    return payload?.userErrors ?? [];
  };
  return (
    <>
      <Row name={t('passkey.title')} text={offered ? t('passkey.hint') : t('passkey.unavailable')}>
        {offered && (
          <Ask button={t('passkey.add')} text={t('passkey.addText')} run={add}>
            {nameField()}
            <CurrentPassword />
          </Ask>
        )}
      </Row>
      {factors.passkeys.map(({ id, name, createdAt, lastUsedAt }) => (
        <Row
          key={id}
          name={name}
          text={
            <>
              {t('passkey.created')} {date(createdAt)} · {t('passkey.lastUsed')}: {lastUsedAt ? <Time at={lastUsedAt} /> : t('passkey.unused')}
            </>
          }
        >
          <Ask
            button={t('passkey.rename')}
            label={t('passkey.renameNamed', { name })}
            run={async ({ name = '' }) => after((await renamePasskey({ input: { passkeyId: id, name } })).renamePasskey)}
          >
            {nameField(name)}
          </Ask>
          <Ask
            danger
            button={t('passkey.delete')}
            label={t('passkey.deleteNamed', { name })}
            text={t('passkey.deleteText')}
            run={async ({ password = '' }) => after((await deletePasskey({ input: { passkeyId: id, password } })).deletePasskey)}
          >
            <CurrentPassword autoFocus />
          </Ask>
        </Row>
      ))}
    </>
  );
}

function RecoveryCodes({ left, changed }: { left: number; changed: Changed }) {
  const renew = async ({ password = '' }: Values): Promise<UserError[]> => {
    const payload = (await renewRecoveryCodes({ input: { password } })).renewRecoveryCodes;
    if (payload?.userErrors.length === 0) await changed(payload.recoveryCodes);
    return payload?.userErrors ?? [];
  };
  return (
    <Row name={t('recovery.title')} text={`${t('recovery.left', { n: left })} ${t('recovery.hint')}`}>
      <Ask button={t('recovery.renew')} text={t('recovery.renewText')} run={renew}><CurrentPassword autoFocus /></Ask>
    </Row>
  );
}

/**
 * Requirement shows owners which members of the chosen account lack a second factor, and sets whether the
 * account requires one.
 */
function Requirement({ user }: { user: User }) {
  return (
    <Group title={t('requirement.title', { account: accountOf(user)?.name ?? '' })}>
      {user.hasSecondFactor ? <RequirementForm /> : <p class="hint">{t('requirement.first')}</p>}
      <p>
        <a href="/provider">{t('requirement.provider')}</a>
      </p>
    </Group>
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
              <CurrentPassword />
            </Form>
          </>
        );
      }}
    </Loaded>
  );
}

/** Sessions lists the browsers where the user is signed in. */
function Sessions() {
  const query = useQuery(sessions, {});
  const leave = async (): Promise<void> => {
    await signOut({ input: { everywhere: true } });
    viewer.set(null);
    go('/sign-in');
  };
  const end = async (sessionId: string): Promise<UserError[]> => {
    const errors = (await revokeSession({ input: { sessionId } })).revokeSession?.userErrors ?? [];
    if (errors.length === 0) await query.reload();
    return errors;
  };
  return (
    <Group title={t('nav.sessions')}>
      <Loaded query={query}>
        {(data) => (
          <ul class="rows">
            {data.sessions.map(({ id, lastSeenAt, createdAt, expiresAt, current }) => (
              <Row
                key={id}
                name={current ? t('session.current') : <>{t('token.lastUsed')}: <Time at={lastSeenAt} /></>}
                text={t('session.between', { since: date(createdAt), until: date(expiresAt) })}
              >
                {!current && (
                  <Action done={t('session.ended')} run={() => end(id)}>{t('session.end')}</Action>
                )}
              </Row>
            ))}
          </ul>
        )}
      </Loaded>
      <div>
        <Action danger run={leave}>{t('session.endAll')}</Action>
      </div>
    </Group>
  );
}
