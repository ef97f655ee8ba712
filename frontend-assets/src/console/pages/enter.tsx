// The page that signs in.
import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import type { UserError } from '../core/api';
import { useQuery } from '../core/data';
import { Action } from '../core/dialog';
import { enter } from '../core/enter';
import { Field, Form, keepsForm, Password, type Values } from '../core/form';
import { t } from '../core/language';
import { loadModule } from '../core/modules';
import { go, useURL } from '../core/router';
import { Title } from '../core/ui';
import { installation, signIn } from '../operations';

/** account loads what only some users need to sign in. */
const account = () => loadModule(() => import('../account'));

/**
 * SignIn asks for address and password, and for a second factor if the user has one. It returns to the page
 * that required them. An installation without accounts leads to the sign-up instead.
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
      {keepsForm() && (
        <p class="notice" role="status">{t('form.kept')}</p>
      )}
      <Form submit={t('signIn.submit')} onSubmit={submit}>
        <Field name="email" type="email" label={t('email')} autoComplete="username" required autoFocus />
        <Password name="password" label={t('password')} autoComplete="current-password" required />
      </Form>
      <p class="aside">
        <a href="/forgot-password">{t('forgot.title')}</a>
        <a href={'/sign-in/provider' + search}>{t('signIn.with', { name: known?.provider ?? 'SSO' })}</a>
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
