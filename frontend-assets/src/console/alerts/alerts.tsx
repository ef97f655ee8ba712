// The pages of the channels that get alerts, of a site with the reader's own mails, and of an account.
import { useState } from 'preact/hooks';
import { useQuery } from '../core/data';
import { t } from '../core/language';
import { Empty, Loaded, Missing } from '../core/states';
import { announce, chosenAccount, isGuest, mayEdit } from '../core/store';
import { accountAlerts, siteAlerts, type AlertChannelFields } from '../operations';
import { Ask } from '../parts/ask';
import { Secret } from '../parts/copy';
import { Group } from '../parts/group';
import { AccountPage } from '../parts/menu';
import { SettingsPage } from '../parts/settings';
import { currentZone } from '../parts/zones';
import { Channel } from './channel';
import { OwnMails } from './own';
import { forms, LoadedForms } from './loadedforms';
import type { Owner } from './wishes';

/** SiteAlerts shows the reader's own mails about a site, and the site's channels. */
export function SiteAlerts({ id }: { id: string }) {
  const query = useQuery(siteAlerts, { id });
  return (
    <SettingsPage id={id} query={query} title={t('alerts.andMails')}>
      {({ site, installation }) =>
        site ? (
          <>
            <OwnMails
              channel={site.ownAlertChannel}
              owner={{ siteId: id, timeZone: site.timeZone }}
              sendsMail={installation.sendsMail}
              reload={query.reload}
            />
            {!isGuest() && (
              <Channels channels={site.alertChannels} owner={{ siteId: id, timeZone: site.timeZone }} reload={query.reload} />
            )}
          </>
        ) : (
          <Missing />
        )
      }
    </SettingsPage>
  );
}

/** AccountAlerts shows the channels of the chosen account. */
export function AccountAlerts() {
  const query = useQuery(accountAlerts, { account: chosenAccount() });
  return (
    <AccountPage title={t('nav.alerts')}>
      <Loaded query={query}>
        {({ account }) =>
          account ? (
            <Channels channels={account.alertChannels} owner={{ accountId: account.id, timeZone: currentZone() }} reload={query.reload} />
          ) : (
            <Missing />
          )
        }
      </Loaded>
    </AccountPage>
  );
}

function Channels({ channels, owner, reload }: { channels: AlertChannelFields[]; owner: Owner; reload(): Promise<void> }) {
  // The buttons of a deleted channel cannot get the focus back.
  const removed = async (name: string): Promise<void> => {
    await reload();
    announce(t('alerts.deleted', { name }));
    document.querySelector('h1')?.focus();
  };
  const [secret, setSecret] = useState('');
  const saved = async (secret: string, kind: string): Promise<void> => {
    await reload();
    setSecret(secret);
    announce(t(kind === 'EMAIL' ? 'alerts.mailed' : 'alerts.created'));
  };
  const add = mayEdit() && (
    <p>
      <Ask
        main
        button={t('alerts.new')}
        submit={t('alerts.create')}
        run={async (...sent) => (await forms()).saveChannel(...sent, owner, undefined, saved)}
      >
        <LoadedForms>{({ ChannelFields }) => <ChannelFields owner={owner} />}</LoadedForms>
      </Ask>
    </p>
  );
  const hint = owner.siteId ? <>{t('alerts.ofSite')} <a href="/alerts">{t('alerts.ofAccountLink')}</a></> : t('alerts.ofAccount');
  return (
    <Group tall title={t('alerts.channels')} hint={hint}>
      {secret && <Secret text={secret} label={t('alerts.newSecret')} onDone={() => setSecret('')} />}
      {channels.length === 0 ? (
        <Empty>
          <h2>{t('alerts.none')}</h2>
          <p>{t('alerts.noneText')}</p>
          {add}
        </Empty>
      ) : (
        <>
          <ul class="rows">
            {channels.map((channel) => (
              <Channel key={channel.id} channel={channel} owner={owner} reload={reload} removed={() => removed(channel.name)} />
            ))}
          </ul>
          {add}
        </>
      )}
    </Group>
  );
}
