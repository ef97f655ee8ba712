// The pages of the channels that get alerts, of a site with the reader's own mails, and of an account.
import { useQuery } from '../core/data';
import { t } from '../core/language';
import { Empty, Loaded, Missing } from '../core/states';
import { announce, chosenAccount, mayEdit } from '../core/store';
import { accountAlerts, siteAlerts, type AlertChannelFields } from '../operations';
import { AccountPage } from '../parts/menu';
import { OnDemand } from '../parts/ondemand';
import { SettingsPage } from '../parts/settings';
import { currentZone } from '../parts/zones';
import { Channel } from './channel';
import { NewChannel, type Owner } from './form';
import { OwnMails } from './own';

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
            <p class="lead">
              {t('alerts.ofSite')} <a href="/alerts">{t('alerts.ofAccountLink')}</a>
            </p>
            <Channels channels={site.alertChannels} owner={{ siteId: id, timeZone: site.timeZone }} reload={query.reload} />
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
      <p class="lead">{t('alerts.ofAccount')}</p>
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
  return (
    <>
      {channels.length === 0 && <Empty>{t('alerts.none')}</Empty>}
      {channels.map((channel) => (
        <Channel key={channel.id} channel={channel} owner={owner} reload={reload} removed={() => removed(channel.name)} />
      ))}
      {mayEdit() && (
        <OnDemand button={t('alerts.new')}><NewChannel owner={owner} reload={reload} /></OnDemand>
      )}
    </>
  );
}
