// The page that the link at the end of a summary or a traffic notice opens. It needs no session.
import { useState } from 'preact/hooks';
import type { UserError } from '../core/api';
import { Form } from '../core/form';
import { t } from '../core/language';
import { Title } from '../core/ui';
import { stopReportMail } from '../operations';

/** StopMail stops the mails of one kind about one site. It asks first: some programs open all links of a mail. */
export function StopMail() {
  const [done, setDone] = useState(false);
  const stop = async (): Promise<UserError[]> => {
    const token = new URLSearchParams(location.search).get('token') ?? '';
    const errors = (await stopReportMail({ input: { token } })).stopReportMail?.userErrors ?? [];
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
