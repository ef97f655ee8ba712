// The mails about a site that its reader gets.
import { useState } from 'preact/hooks';
import { Dialog } from '../core/dialog';
import { t } from '../core/language';
import { announce } from '../core/store';
import { Section } from '../core/ui';
import type { AlertChannelFields } from '../operations';
import { wishesOf } from './channel';
import { OwnForm, type Owner } from './form';

/** OwnMails shows and changes the reader's own channel of a site, which every role has. */
export function OwnMails(props: {
  channel: AlertChannelFields | null;
  owner: Owner;
  sendsMail: boolean;
  reload(): Promise<void>;
}) {
  const { channel, owner, sendsMail, reload } = props;
  const [editing, setEditing] = useState(false);
  const saved = async (): Promise<void> => {
    await reload();
    setEditing(false);
    announce(t('saved'));
  };
  return (
    <Section title={t('alerts.own')} hint={t('alerts.ownHint', { zone: owner.timeZone })}>
      {!sendsMail && <p class="notice">{t('alerts.noMail')}</p>}
      {channel?.state === 'STOPPED' && <p class="notice">{t('alerts.ownStopped')}</p>}
      <p>{channel ? wishesOf(channel) : t('alerts.noEvents')}</p>
      <p>
        <button type="button" class="small" onClick={() => setEditing(true)}>{t('alerts.ownEdit')}</button>
      </p>
      {editing && (
        <Dialog title={t('alerts.own')} onClose={() => setEditing(false)}><OwnForm channel={channel} owner={owner} saved={saved} /></Dialog>
      )}
    </Section>
  );
}
