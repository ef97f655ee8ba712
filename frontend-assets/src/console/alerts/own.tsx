// The mails about a site that its reader gets.
import type { UserError } from '../core/api';
import type { Values } from '../core/form';
import { t } from '../core/language';
import { announce } from '../core/store';
import type { AlertChannelFields } from '../operations';
import { Ask } from '../parts/ask';
import { Group, Row } from '../parts/group';
import { forms, LoadedForms } from './loadedforms';
import { wishesOf, type Owner } from './wishes';

/** OwnMails shows and changes the reader's own channel of a site, which every role has. */
export function OwnMails(props: {
  channel: AlertChannelFields | null;
  owner: Owner;
  sendsMail: boolean;
  reload(): Promise<void>;
}) {
  const { channel, owner, sendsMail, reload } = props;
  const save = async (values: Values, form: HTMLFormElement): Promise<UserError[]> => {
    const errors = await (await forms()).saveOwn(values, form, owner, channel);
    if (errors.length > 0) return errors;
    await reload();
    announce(t('saved'));
    return [];
  };
  return (
    <Group tall title={t('alerts.own')} hint={t('alerts.ownHint', { zone: owner.timeZone })}>
      {!sendsMail && <p class="notice">{t('alerts.noMail')}</p>}
      {channel?.state === 'STOPPED' && <p class="notice">{t('alerts.ownStopped')}</p>}
      <ul class="rows">
        <Row name={channel ? wishesOf(channel) : t('alerts.noMails')}>
          <Ask button={t('alerts.ownEdit')} submit={t('save')} run={save}>
            <LoadedForms>{({ Wishes }) => <Wishes owner={owner} channel={channel} />}</LoadedForms>
          </Ask>
        </Row>
      </ul>
    </Group>
  );
}
