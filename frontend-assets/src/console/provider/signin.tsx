// The page that signs in through a provider, and to which the provider leads back.
import { useEffect, useState } from 'preact/hooks';
import type { UserError } from '../core/api';
import { useQuery } from '../core/data';
import { Action } from '../core/dialog';
import { enter } from '../core/enter';
import { Field, Form, Password, userErrorText, type Values } from '../core/form';
import { t, translated } from '../core/language';
import { loadModule } from '../core/modules';
import { Title } from '../core/ui';
import { finishProviderSignIn, installation, startProviderSignIn, type FinishProviderSignInData } from '../operations';

type Finished = NonNullable<FinishProviderSignInData['finishProviderSignIn']>;
type Proof = { password?: string; secondFactor?: string; passkey?: { challenge: string; credential: string } };

/** leave opens the provider's page. */
async function leave(email: string | null, next: string | null): Promise<UserError[]> {
  const payload = (await startProviderSignIn({ input: { email, next } })).startProviderSignIn;
  if (payload?.url) location.assign(payload.url);
  return payload?.userErrors ?? [];
}

/** ThroughProvider asks for the address, leads to the provider, and ends the sign-in when the provider leads back. */
export function ThroughProvider() {
  const [query] = useState(() => new URLSearchParams(location.search));
  const [finishing, setFinishing] = useState(query.get('provider') === 'finish');
  // An unknown reason has a text of its own: the address may come from anywhere.
  const reason = query.get('problem');
  const [problem, setProblem] = useState(reason ? translated('problem', reason, t('problem.internal')) : '');
  const { installation: known } = useQuery(installation, {}).data ?? {};
  const next = query.get('next');

  if (finishing) {
    return (
      <Finish
        failed={(text) => {
          setProblem(text);
          setFinishing(false);
        }}
      />
    );
  }
  return (
    <>
      <Title text={t('through.title')} />
      {problem && (
        <p class="notice bad" role="alert">{problem}</p>
      )}
      {known?.provider && (
        <p>
          <Action run={() => leave(null, next)}>{t('signIn.with', { name: known.provider })}</Action>
        </p>
      )}
      <Form submit={t('through.submit')} onSubmit={({ email = '' }) => leave(email, next)}>
        <Field name="email" type="email" label={t('email')} hint={t('through.hint')} autoComplete="username" required autoFocus />
      </Form>
      <p class="aside">
        <a href={'/sign-in' + (next ? '?next=' + encodeURIComponent(next) : '')}>{t('through.local')}</a>
      </p>
    </>
  );
}

/** Finish signs in, and asks for the proofs that the user owes. */
function Finish({ failed }: { failed(text: string): void }) {
  const [payload, setPayload] = useState<Finished>();
  const [password, setPassword] = useState<string>();

  /** send returns the errors of a proof; without one, they end the sign-in. */
  const send = async (proof: Proof): Promise<UserError[]> => {
    const finished = (await finishProviderSignIn({ input: proof })).finishProviderSignIn;
    if (!finished?.viewer && !finished?.userErrors.length) setPayload(finished ?? undefined);
    return enter(finished);
  };
  useEffect(() => {
    send({}).then(
      (errors) => errors.length && failed(userErrorText(errors[0]!)),
      () => failed(t('problem.internal')),
    );
  }, []);

  if (!payload) return <Title text={t('through.title')} />;
  if (payload.needsPassword) {
    const prove = async ({ password: typed = '' }: Values): Promise<UserError[]> => {
      setPassword(typed);
      return send({ password: typed });
    };
    return (
      <>
        <Title text={t('through.prove')} />
        <p>{t('through.proveText', { email: payload.email ?? '' })}</p>
        <Form submit={t('signIn.submit')} onSubmit={prove}>
          <Password name="password" label={t('password')} autoComplete="current-password" required autoFocus />
        </Form>
        <p class="aside">
          <a href="/forgot-password">{t('forgot.title')}</a>
        </p>
      </>
    );
  }

  const withPassword = password === undefined ? {} : { password };
  const withKey = async (): Promise<UserError[]> => {
    const { usePasskey, withPasskey } = await loadModule(() => import('../account'));
    return withPasskey(async () => {
      const request = (await finishProviderSignIn({ input: withPassword })).finishProviderSignIn?.passkeyRequest;
      if (!request) return [];
      const passkey = { challenge: request.challenge, credential: await usePasskey(request.options) };
      return send({ ...withPassword, passkey });
    });
  };
  return (
    <>
      <Title text={t('through.factor')} />
      {payload.passkeyRequest && (
        <p>
          <Action run={withKey}>{t('through.passkey')}</Action>
        </p>
      )}
      <Form submit={t('signIn.submit')} onSubmit={({ secondFactor = '' }) => send({ ...withPassword, secondFactor })}>
        <Field name="secondFactor" label={t('through.code')} autoComplete="one-time-code" required autoFocus maxLength={64} />
      </Form>
    </>
  );
}
