// The second step of signing in, and signing in by a passkey alone.
import type { UserError } from '../core/api';
import { Action } from '../core/dialog';
import { Field, Form, type Values } from '../core/form';
import { t } from '../core/language';
import { Title } from '../core/ui';
import { passkeySignIn, signIn, signInWithPasskey, type SignInData } from '../operations';
import { usePasskey, withPasskey } from './webauthn';

type Payload = NonNullable<SignInData['signIn']>;

/** Enter shows the page that the user wanted, or returns the errors. */
type Enter = (payload: { viewer: Payload['viewer']; userErrors: UserError[] } | null) => UserError[];

/** SecondFactor asks for the missing proof after a right password. */
export function SecondFactor(props: { email: string; password: string; payload: Payload; enter: Enter }) {
  const { email, password, payload, enter } = props;
  const methods = payload.secondFactorMethods;

  const withCode = async ({ secondFactor = '' }: Values): Promise<UserError[]> =>
    enter((await signIn({ input: { email, password, secondFactor } })).signIn);

  // A request is valid once, so each attempt gets a new request.
  const withKey = (): Promise<UserError[]> =>
    withPasskey(async () => {
      const request = (await signIn({ input: { email, password } })).signIn?.passkeyRequest;
      if (!request) return [];
      const passkey = { challenge: request.challenge, credential: await usePasskey(request.options) };
      return enter((await signIn({ input: { email, password, passkey } })).signIn);
    });

  return (
    <>
      <Title text={t('proof.title')} />
      {payload.passkeyRequest && (
        <p>
          <Action run={withKey}>{t('proof.passkey')}</Action>
        </p>
      )}
      <Form submit={t('signIn.submit')} onSubmit={withCode}>
        <Field
          name="secondFactor"
          label={t(methods.includes('TOTP') ? 'proof.code' : 'proof.recoveryCode')}
          hint={t(methods.includes('TOTP') ? 'proof.codeHint' : 'proof.recoveryHint')}
          autoComplete="one-time-code"
          required
          autoFocus
          maxLength={64}
        />
      </Form>
      <p class="aside">{t('proof.lost')}</p>
    </>
  );
}

/** byPasskey signs in without a password. */
export const byPasskey = (enter: Enter): Promise<UserError[]> =>
  withPasskey(async () => {
    const request = (await passkeySignIn({})).passkeySignIn;
    if (!request) return [];
    const credential = await usePasskey(request.options);
    return enter((await signInWithPasskey({ input: { challenge: request.challenge, credential } })).signInWithPasskey);
  });
