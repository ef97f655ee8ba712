// The sites that were deleted and can be restored.
import type { UserError } from '../core/api';
import { useQuery } from '../core/data';
import { Action, Confirm } from '../core/dialog';
import { t } from '../core/language';
import { go } from '../core/router';
import { Empty, Loaded, Missing } from '../core/states';
import { announce, chosenAccount } from '../core/store';
import { Table, Time } from '../core/ui';
import { AccountPage } from '../parts/menu';
import { deletedSites, deleteSite, restoreSite, viewer, type DeletedSitesData } from '../operations';

type Deleted = NonNullable<DeletedSitesData['account']>['deletedSites'][number];

/** DeletedSites lists the deleted sites of the chosen account, each with its restoration. */
export function DeletedSites() {
  const query = useQuery(viewer, {});
  return (
    <Loaded query={query} title={t('nav.deleted')}>
      {({ viewer }) => viewer && <List account={chosenAccount() ?? viewer.account.id} />}
    </Loaded>
  );
}

function List({ account }: { account: string }) {
  const query = useQuery(deletedSites, { account });
  const restore = async ({ siteId, name }: Deleted): Promise<UserError[]> => {
    const errors = (await restoreSite({ input: { siteId } })).restoreSite?.userErrors ?? [];
    if (errors.length === 0) {
      announce(t('deleted.restored', { name }));
      go('/sites/' + siteId);
    }
    return errors;
  };
  const purge = async ({ siteId }: Deleted, confirm: string): Promise<UserError[]> => {
    const input = { siteId, confirm, immediately: true };
    const errors = (await deleteSite({ input })).deleteSite?.userErrors ?? [];
    if (errors.length === 0) await query.reload();
    return errors;
  };

  return (
    <AccountPage title={t('nav.deleted')}>
      <Loaded query={query}>
        {({ account }) => {
          if (!account) return <Missing />;
          if (account.deletedSites.length === 0) return <Empty>{t('deleted.empty')}</Empty>;
          return (
            <Table label={t('nav.deleted')} head={[t('deleted.site'), t('deleted.at'), t('deleted.until'), t('deleted.actions')]}>
              {account.deletedSites.map((site) => (
                <tr key={site.siteId}>
                  <td>
                    <span class="path">
                      {site.name}
                      {site.name !== site.domain && <span class="hint"> {site.domain}</span>}
                    </span>
                  </td>
                  <td><Time at={site.deletedAt} /></td>
                  <td><Time at={site.restorableUntil} /></td>
                  <td class="number">
                    <span class="inline">
                      <Action label={t('deleted.restoreNamed', { name: site.name })} run={() => restore(site)}>
                        {t('deleted.restore')}
                      </Action>
                      <Confirm
                        button={t('deleted.purge')}
                        title={t('deleted.purge')}
                        text={t('settings.purgeText')}
                        name={site.domain}
                        run={({ confirm = '' }) => purge(site, confirm)}
                      />
                    </span>
                  </td>
                </tr>
              ))}
            </Table>
          );
        }}
      </Loaded>
    </AccountPage>
  );
}
