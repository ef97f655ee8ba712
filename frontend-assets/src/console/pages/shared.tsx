// The page of a shared link: the report of a site, for readers without an account.
import { useEffect, useState } from 'preact/hooks';
import { authorize, Failure, isFramed, type UserError } from '../core/api';
import { useQuery } from '../core/data';
import { Form, Password, type Values } from '../core/form';
import { t } from '../core/language';
import { useURL } from '../core/router';
import { link } from '../core/source';
import { Failed, Loaded, Loading, Skeleton } from '../core/states';
import { Title } from '../core/ui';
import { openSharedLink, sharedFigures } from '../operations';
import { Report, useTabs, useView, variablesOf } from '../report/report';

type State = 'opening' | 'password' | 'invalid' | 'open';

/** Shared shows the link of the address. Its token stands behind #, so no server logs it and no referrer has it. */
export function Shared() {
  const token = useURL().hash.slice(1);
  return <Link key={token} token={token} />;
}

/** Link opens a link, and asks for its password if it has one. The token of the reader is not stored. */
function Link({ token }: { token: string }) {
  const [state, setState] = useState<State>('opening');
  const [failure, setFailure] = useState<Failure>();

  const open = async (password?: string): Promise<UserError[]> => {
    // In a frame, the path has the id of the link with the origins that may frame it.
    const framed = isFramed && { sharedLinkId: location.pathname.split('/')[2] ?? '' };
    const payload = (await openSharedLink({ input: { token, ...framed, ...(password && { password }) } })).openSharedLink;
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
        <section class="card column">
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
  const view = useView();
  const tabs = useTabs(view);
  const query = useQuery(sharedFigures, variablesOf(view, tabs), true);
  link.hidesRevenue = !!query.data?.sharedSite?.hidesRevenue;
  return (
    <Loaded query={query} title={t('shared.title')} placeholder={<Skeleton />}>
      {({ sharedSite: site }) =>
        site && (
          <>
            <Title text={site.name}>{site.live && <span class="now">{t('live.now', { n: site.live.visitors })}</span>}</Title>
            {!isFramed && <p class="lead">{t('shared.readOnly', { domain: site.domain })}</p>}
            <Report
              id=""
              asked={view}
              opens={site.reportView}
              report={site.report}
              failure={query.part}
              retry={query.reload}
              busy={query.busy}
              tabs={tabs}
              notes={[]}
            />
          </>
        )
      }
    </Loaded>
  );
}
