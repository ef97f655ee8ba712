// Pages for unauthenticated callers: sign in, sign up, and the pages that mailed links open.
import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import type { UserError } from '../core/api';
import { useQuery } from '../core/data';
import { Action } from '../core/dialog';
import { enter, useLinkSecret } from '../core/enter';
import { Field, Form, Password, type Values } from '../core/form';
import { loadPageTexts, t } from '../core/language';
import { go, useURL } from '../core/router';
import { Title } from '../core/ui';
import {
  confirmSignUp,
  installation,
  requestPasswordReset,
  resetPassword,
  signIn,
  signUp,
} from '../operations';

/** account loads what only some users need to sign in. */
const account = async () => (await Promise.all([import('../account'), loadPageTexts()]))[0];

/**
 * SignIn asks for address and password, and for a second factor if the user has one. It returns to the page
 * that required them. An installation without accounts shows SignUp instead.
 */
export function SignIn() {
  const { search } = useURL();
  const [step, setStep] = useState<ComponentChildren>();
  const { installation: known, passkeySignIn } = useQuery(installation, {}).data ?? {};
  const first = known?.firstAccount;
  useEffect(() => {
    if (first) go('/sign-up' + search, true);
  }, [first]);

  const submit = async ({ email = '', password = '' }: Values): Promise<UserError[]> => {
    const payload = (await signIn({ input: { email, password } })).signIn;
    if (!payload?.secondFactorMethods.length) return enter(payload);

    const { SecondFactor } = await account();
    setStep(<SecondFactor {...{ email, password, payload, enter }} />);
    return [];
  };

  if (step) return step;
  return (
    <>
      <Title text={t('signIn.title')} />
      <Form submit={t('signIn.submit')} onSubmit={submit}>
        <Field name="email" type="email" label={t('email')} autoComplete="username" required autoFocus />
        <Password name="password" label={t('password')} autoComplete="current-password" required />
      </Form>
      <p class="aside">
        <a href="/forgot-password">{t('forgot.title')}</a>
        {known?.signUps ? (
          <a href={'/sign-up' + search}>{t('signUp.title')}</a>
        ) : (
          known && <span>{t('signUp.closed')}</span>
        )}
      </p>
      {passkeySignIn && (
        <p class="aside">
          <Action run={async () => (await account()).byPasskey(enter)}>{t('signIn.passkey')}</Action>
        </p>
      )}
    </>
  );
}

/** SignUp creates an account. It reports beforehand if the installation accepts no sign-ups. */
export function SignUp() {
  const { search } = useURL();
  const [sentTo, setSentTo] = useState('');
  const known = useQuery(installation, {}).data?.installation;
  const first = known?.firstAccount;

  const submit = async ({ email = '', password = '', accountName = '' }: Values): Promise<UserError[]> => {
    const payload = (await signUp({ input: { email, password, accountName } })).signUp;
    if (payload?.verificationSent) setSentTo(email);
    return enter(payload);
  };

  if (sentTo) {
    return (
      <>
        <Title text={t('signUp.sent')} />
        <p>{t('signUp.sentText', { email: sentTo })}</p>
      </>
    );
  }

  return (
    <>
      <Title text={t(first ? 'signUp.first' : 'signUp.title')} />
      {first && <p>{t('signUp.firstText')}</p>}
      {known?.signUps === false && <p class="notice">{t('signUp.closed')}</p>}
      <Form submit={t('signUp.submit')} onSubmit={submit} disabled={known?.signUps === false}>
        <Field
          name="accountName"
          label={t('account.name')}
          hint={t('account.nameHint')}
          autoComplete="organization"
          required
          maxLength={100}
          autoFocus
        />
        <Field name="email" type="email" label={t('email')} autoComplete="username" required />
        <Password
          name="password"
          label={t('password')}
          hint={t('password.hint')}
          autoComplete="new-password"
          required
          minLength={10}
        />
      </Form>
      {!first && (
        <p class="aside">
          <a href={'/sign-in' + search}>{t('signIn.title')}</a>
        </p>
      )}
    </>
  );
}

/** ForgotPassword mails a link. The text is the same whether the address has an account. */
export function ForgotPassword() {
  const [sentTo, setSentTo] = useState('');
  const known = useQuery(installation, {}).data?.installation;
  const submit = async ({ email = '' }: Values): Promise<UserError[]> => {
    const errors = (await requestPasswordReset({ input: { email } })).requestPasswordReset?.userErrors ?? [];
    if (errors.length === 0) setSentTo(email);
    return errors;
  };

  return (
    <>
      <Title text={t('forgot.title')} />
      {known?.sendsMail === false && <p class="notice">{t('forgot.noMail')}</p>}
      {sentTo ? (
        <p role="status">{t('forgot.sent', { email: sentTo })}</p>
      ) : (
        <Form submit={t('forgot.submit')} onSubmit={submit} disabled={known?.sendsMail === false}>
          <Field
            name="email"
            type="email"
            label={t('email')}
            hint={t('forgot.hint')}
            autoComplete="username"
            required
            autoFocus
          />
        </Form>
      )}
      <p class="aside">
        <a href="/sign-in">{t('signIn.title')}</a>
      </p>
    </>
  );
}

/** ResetPassword sets a new password with a mailed link. */
export function ResetPassword() {
  const [token, consumed] = useLinkSecret();
  const [tokens, setTokens] = useState(-1);
  const submit = async ({ password = '' }: Values): Promise<UserError[]> => {
    const payload = (await resetPassword({ input: { token, password } })).resetPassword;
    if (payload && payload.userErrors.length === 0) {
      consumed();
      setTokens(payload.apiTokens.length);
    }
    return payload?.userErrors ?? [];
  };

  return (
    <>
      <Title text={t('reset.title')} />
      {tokens >= 0 ? (
        <>
          <p role="status">{t('reset.done')}</p>
          {tokens > 0 && <p>{t('reset.tokens', { n: tokens })}</p>}
          <p>
            <a class="button main" href="/sign-in">
              {t('signIn.title')}
            </a>
          </p>
        </>
      ) : (
        <Form submit={t('reset.submit')} onSubmit={submit}>
          <Password
            name="password"
            label={t('password.new')}
            hint={t('password.hint')}
            autoComplete="new-password"
            required
            minLength={10}
            autoFocus
          />
        </Form>
      )}
    </>
  );
}

/** ConfirmSignUp creates the account of a pending sign-up. */
export function ConfirmSignUp() {
  const [secret, consumed] = useLinkSecret();
  const submit = async ({ password = '' }: Values): Promise<UserError[]> => {
    const payload = (await confirmSignUp({ input: { secret, password } })).confirmSignUp;
    if (payload?.viewer) consumed();
    return enter(payload);
  };

  return (
    <>
      <Title text={t('confirmSignUp.title')} />
      <p>{t('confirmSignUp.text')}</p>
      <Form submit={t('confirmSignUp.submit')} onSubmit={submit}>
        <Password name="password" label={t('password')} autoComplete="current-password" required autoFocus />
      </Form>
    </>
  );
}
