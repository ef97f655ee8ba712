// The page of a shared link: the report of a site, for readers without an account.
import {
  authorize,
  exact,
  Failed,
  Failure,
  Form,
  Loaded,
  Loading,
  Password,
  Section,
  t,
  Title,
  useEffect,
  useQuery,
  useState,
  type UserError,
  type Values,
} from '../core';
import { openSharedLink, sharedTotals } from '../operations';

type State = 'opening' | 'password' | 'invalid' | 'open';

/** Shared opens a link, and asks for its password if it has one. The token of the reader is not stored. */
export function Shared({ token }: { token: string }) {
  const [state, setState] = useState<State>('opening');
  const [failure, setFailure] = useState<Failure>();

  const open = async (password?: string): Promise<UserError[]> => {
    const payload = (await openSharedLink({ input: { token, ...(password && { password }) } })).openSharedLink;
    const errors = payload?.userErrors ?? [];
    const [error] = errors;
    if (payload?.viewerToken) {
      authorize(payload.viewerToken);
      setState('open');
    } else if (error?.code === 'PASSWORD_REQUIRED') setState('password');
    else if (error?.code === 'INVALID_LINK') setState('invalid');
    // At sign-in, this code is about the address too.
    else return errors.map((e) => (e.code === 'WRONG_CREDENTIALS' ? { ...e, code: 'WRONG_PASSWORD' } : e));
    return [];
  };
  const begin = (): void => {
    setFailure(undefined);
    open().catch((error: Failure) => setFailure(error));
  };

  useEffect(() => {
    authorize('');
    begin();
    return () => authorize('');
  }, []);

  if (state === 'open') return <SharedReport />;
  return (
    <>
      <Title text={t('shared.title')} />
      {failure ? (
        <Failed failure={failure} retry={begin} />
      ) : state === 'opening' ? (
        <Loading />
      ) : state === 'invalid' ? (
        <p class="notice">{t('shared.invalid')}</p>
      ) : (
        <section class="card slim">
          <p>{t('shared.password')}</p>
          <Form submit={t('shared.open')} class="column" onSubmit={({ password = '' }: Values) => open(password)}>
            <Password name="password" label={t('password')} autoComplete="current-password" required autoFocus />
          </Form>
        </section>
      )}
    </>
  );
}

/** SharedReport shows the figures of the open link. */
function SharedReport() {
  const query = useQuery(sharedTotals, { period: { preset: 'LAST_28_DAYS' } });
  return (
    <Loaded query={query} title={t('shared.title')}>
      {({ sharedSite: site }) =>
        site && (
          <>
            <Title text={site.name} />
            <p class="lead">{t('shared.readOnly', { domain: site.domain })}</p>
            {site.report && (
              <Section title={`${site.report.from} – ${site.report.to}`}>
                <dl class="facts">
                  {(['visitors', 'visits', 'pageviews'] as const).map((figure) => (
                    <div key={figure}>
                      <dt>{t(`shared.${figure}`)}</dt>
                      <dd>{exact(site.report!.totals[figure])}</dd>
                    </div>
                  ))}
                </dl>
              </Section>
            )}
          </>
        )
      }
    </Loaded>
  );
}
