// The page that creates an account.
import { useState } from 'preact/hooks';
import type { UserError } from '../core/api';
import { useQuery } from '../core/data';
import { enter } from '../core/enter';
import { Field, Form, type Values } from '../core/form';
import { t } from '../core/language';
import { useURL } from '../core/router';
import { Title } from '../core/ui';
import { installation, signUp } from '../operations';
import { NewPassword } from './newpassword';

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
        <NewPassword label={t('password')} />
      </Form>
      {!first && (
        <p class="aside">
          <a href={'/sign-in' + search}>{t('signIn.title')}</a>
        </p>
      )}
    </>
  );
}
