// The mails about a site that its reader gets.
import type { UserError } from '../core/api';
import { Field, Form, type Values } from '../core/form';
import { t } from '../core/language';
import { announce } from '../core/store';
import { Section } from '../core/ui';
import { Check } from '../parts/check';
import { setReportMails, type SharingData } from '../operations';
import { changes } from '../parts/changes';

/** Mails are the reader's own choice, which every role has. */
export function Mails({ data, reload }: { data: SharingData; reload(): Promise<void> }) {
  const site = data.site!;
  const mails = site.reportMails;
  const number = (text = ''): number | null => (text.trim() ? Number(text) : null);
  const save = async (values: Values, form: HTMLFormElement): Promise<UserError[]> => {
    const all = {
      weekly: 'weekly' in values,
      monthly: 'monthly' in values,
      spikeAbove: number(values['spikeAbove']),
      dropBelow: number(values['dropBelow']),
    };
    const input = { siteId: site.id, ...changes(form, all) };
    const errors = (await setReportMails({ input })).setReportMails?.userErrors ?? [];
    if (errors.length === 0) {
      await reload();
      announce(t('saved'));
    }
    return errors;
  };
  return (
    <Section title={t('mails.title')} hint={t('mails.hint', { zone: site.timeZone })}>
      {!data.installation.sendsMail && <p class="notice">{t('mails.noMail')}</p>}
      <Form submit={t('save')} onSubmit={save} class="column" label={t('mails.title')}>
        <Check name="weekly" label={t('mails.weekly')} checked={mails.weekly} />
        <Check name="monthly" label={t('mails.monthly')} checked={mails.monthly} />
        <Field
          name="spikeAbove"
          type="number"
          min="1"
          max="1000000000"
          label={t('mails.spike')}
          hint={t('mails.spikeHint')}
          value={mails.spikeAbove === null ? '' : String(mails.spikeAbove)}
        />
        <Field
          name="dropBelow"
          type="number"
          min="1"
          max="1000000000"
          label={t('mails.drop')}
          hint={t('mails.dropHint')}
          value={mails.dropBelow === null ? '' : String(mails.dropBelow)}
        />
      </Form>
    </Section>
  );
}
