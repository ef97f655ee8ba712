// The pages that links in mails open, which stop or confirm mails. They need no session.
import { useState } from 'preact/hooks';
import type { UserError } from '../core/api';
import { Form } from '../core/form';
import { t } from '../core/language';
import { Title } from '../core/ui';
import { confirmAlertChannel, stopAlertMails } from '../operations';

/** StopMail stops the mails of one alert channel. It asks first: some programs open all links of a mail. */
export function StopMail() {
  const [done, setDone] = useState(false);
  const stop = async (): Promise<UserError[]> => {
    const token = new URLSearchParams(location.search).get('token') ?? '';
    const errors = (await stopAlertMails({ input: { token } })).stopAlertMails?.userErrors ?? [];
    if (errors.length === 0) setDone(true);
    return errors;
  };

  return (
    <>
      <Title text={t('stopMail.title')} />
      {done ? (
        <p role="status">{t('stopMail.done')}</p>
      ) : (
        <>
          <p>{t('stopMail.text')}</p>
          <Form submit={t('stopMail.submit')} onSubmit={stop} />
        </>
      )}
    </>
  );
}

/** ConfirmAlerts confirms the address of an alert channel. It asks first, as StopMail does. */
export function ConfirmAlerts() {
  const [token] = useState(location.hash.slice(1));
  const [done, setDone] = useState(false);
  const confirm = async (): Promise<UserError[]> => {
    const errors = (await confirmAlertChannel({ input: { token } })).confirmAlertChannel?.userErrors ?? [];
    if (errors.length === 0) setDone(true);
    return errors;
  };

  return (
    <>
      <Title text={t('confirmAlerts.title')} />
      {done ? (
        <p role="status">{t('confirmAlerts.done')}</p>
      ) : (
        <>
          <p>{t('confirmAlerts.text')}</p>
          <Form submit={t('confirmAlerts.submit')} onSubmit={confirm} />
        </>
      )}
    </>
  );
}
