// The pages around a forgotten password and a pending sign-up, which have no session.
import { useState } from 'preact/hooks';
import type { UserError } from '../core/api';
import { useQuery } from '../core/data';
import { enter } from '../core/enter';
import { Field, Form, Password, type Values } from '../core/form';
import { t } from '../core/language';
import { Title } from '../core/ui';
import { useLinkSecret } from '../parts/linksecret';
import { confirmSignUp, installation, requestPasswordReset, resetPassword } from '../operations';
import { NewPassword } from './newpassword';

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
          <Field name="email" type="email" label={t('email')} hint={t('forgot.hint')} autoComplete="username" required autoFocus />
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
            <a class="button main" href="/sign-in">{t('signIn.title')}</a>
          </p>
        </>
      ) : (
        <Form submit={t('reset.submit')} onSubmit={submit}><NewPassword label={t('password.new')} autoFocus /></Form>
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
