// The page that an invitation's link opens.
import { useEffect, useState } from 'preact/hooks';
import type { UserError } from '../core/api';
import { useQuery } from '../core/data';
import { enter } from '../core/enter';
import { Field, Form, Password, type Values } from '../core/form';
import { t } from '../core/language';
import { go } from '../core/router';
import { Loaded } from '../core/states';
import { Title } from '../core/ui';
import { useLinkSecret } from '../parts/linksecret';
import { acceptInvitation, invitationOffer, viewer as readViewer, type InvitationOfferData } from '../operations';

type Offer = NonNullable<InvitationOfferData['invitationOffer']>;

/** AcceptInvitation shows who invites to what, and adds the invited person to the account. */
export function AcceptInvitation() {
  const [token, consumed] = useLinkSecret();
  const query = useQuery(invitationOffer, { token });
  return (
    <>
      <Title text={t('invitation.title')} />
      <Loaded query={query}>
        {({ invitationOffer: offer }) =>
          offer ? (
            <Join token={token} consumed={consumed} offer={offer} />
          ) : (
            <p class="notice">{t('invitation.void')}</p>
          )
        }
      </Loaded>
    </>
  );
}

/**
 * Join adds the signed-in user, a user with the password, or a new user with a password of their choice. It asks
 * for the code of a second factor once the service has refused the password alone.
 */
function Join({ token, consumed, offer }: { token: string; consumed(): void; offer: Offer }) {
  const [signedIn, setSignedIn] = useState('');
  const [needsCode, setNeedsCode] = useState(false);
  useEffect(() => void readViewer({}).then((data) => setSignedIn(data.viewer?.email ?? '')), []);
  const { email, role, accountName: account, invitedBy: by } = offer;
  const known = signedIn === email;

  const submit = async ({ password, secondFactor }: Values): Promise<UserError[]> => {
    const input = { token, ...(password && { password }), ...(secondFactor && { secondFactor }) };
    const payload = (await acceptInvitation({ input })).acceptInvitation;
    if (!needsCode && payload?.userErrors.some((error) => error.code === 'INVALID_SECOND_FACTOR')) {
      setNeedsCode(true);
      return [];
    }
    if (payload?.viewer) {
      consumed();
      go('?next=' + encodeURIComponent('/?account=' + payload.viewer.account.id), true);
    }
    return enter(payload);
  };

  return (
    <>
      <p>{by ? t('invitation.by', { by, email, account }) : t('invitation.for', { email, account })}</p>
      <p>
        {t('member.role')}:{' '}
        {offer.siteCount ? (
          <>
            <strong>{t('role.GUEST')}</strong>. {t('invitation.sites', { n: offer.siteCount })}
          </>
        ) : (
          <>
            <strong>{t(`role.${role}`)}</strong>. {t(`role.${role}.hint`)}
          </>
        )}
      </p>
      <p>{known ? t('invitation.signedIn', { email }) : t('invitation.text', { email })}</p>
      <Form submit={t('invitation.submit')} onSubmit={submit}>
        {!known && (
          <Password name="password" label={t('password')} hint={t('invitation.hint')} autoComplete="new-password" required autoFocus />
        )}
        {needsCode && (
          <Field
            name="secondFactor"
            label={t('invitation.code')}
            hint={t('invitation.codeHint')}
            autoComplete="one-time-code"
            required
            autoFocus
            maxLength={64}
          />
        )}
      </Form>
    </>
  );
}
