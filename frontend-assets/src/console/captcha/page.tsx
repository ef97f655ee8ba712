// The page of a sitekey: what happened, how pages use it, and how it protects them.
import type { UserError } from '../core/api';
import { useQuery } from '../core/data';
import { Confirm } from '../core/dialog';
import type { Values } from '../core/form';
import { t } from '../core/language';
import { go, useURL } from '../core/router';
import { Loaded, Missing } from '../core/states';
import { announce, isOwner, mayEdit } from '../core/store';
import { Title } from '../core/ui';
import { deleteSitekey, sitekey as readSitekey, transferSitekey, updateSitekey } from '../operations';
import { Ask } from '../parts/ask';
import { changes } from '../parts/changes';
import { Transfer } from '../parts/transfer';
import { Activity } from './activity';
import { domainsOf, NameAndDomains, type Show } from './fields';
import { Integration } from './integration';
import { Attack, PolicyForm } from './policy';

/** save stores the name and the domains of a sitekey that a form has. */
const save = async (sitekeyId: string, show: Show, values: Values, form: HTMLFormElement): Promise<UserError[]> => {
  const all = { name: values['name'] ?? '', domains: domainsOf(values['domains']) };
  return show((await updateSitekey({ input: { sitekeyId, ...changes(form, all) } })).updateSitekey);
};

const tabs = ['activity', 'integration', 'protection'] as const;

/** SitekeyPage has three tabs, which the address chooses. */
export function SitekeyPage({ id }: { id: string }) {
  const query = useQuery(readSitekey, { id });
  const chosen = useURL().searchParams.get('tab') ?? tabs[0];

  return (
    <Loaded query={query} title={t('captcha.sitekey')}>
      {(data) => {
        const key = data.sitekey;
        if (!key) return <Missing />;

        const { name } = key;
        const show: Show = (payload) => {
          if (payload?.sitekey) {
            query.set({ ...data, sitekey: { ...key, ...payload.sitekey } });
            announce(t('saved'));
          }
          return payload?.userErrors ?? [];
        };
        const remove = async ({ confirm = '' }: Values): Promise<UserError[]> => {
          const errors = (await deleteSitekey({ input: { sitekeyId: id, confirm } })).deleteSitekey?.userErrors ?? [];
          if (errors.length === 0) {
            announce(t('settings.deleted', { name }));
            go('/captcha');
          }
          return errors;
        };
        const move = async (toAccountId: string): Promise<UserError[]> =>
          (await transferSitekey({ input: { sitekeyId: id, toAccountId } })).transferSitekey?.userErrors ?? [];
        return (
          <>
            <p class="crumb">
              <a href="/captcha">{t('nav.captcha')}</a>
            </p>
            <Title text={name}>
              {mayEdit() && (
                <span class="inline">
                  <Ask button={t('captcha.edit')} submit={t('save')} run={(values, form) => save(id, show, values, form)}>
                    <NameAndDomains of={key} />
                  </Ask>
                  {isOwner() && <Transfer name={name} text={t('transfer.sitekeyHint')} from={key.accountId} to="/captcha" run={move} />}
                  {isOwner() && (
                    <Confirm button={t('captcha.deleteNow')} title={t('captcha.delete')} text={t('captcha.deleteText')} name={name} run={remove} />
                  )}
                </span>
              )}
            </Title>
            <Attack attack={key.attack} policy={key.policy} />
            <nav class="tabs lead" aria-label={name}>
              {tabs.map((tab) => (
                <a key={tab} href={'?tab=' + tab} aria-current={tab === chosen ? 'page' : undefined}>{t(`captcha.tab.${tab}`)}</a>
              ))}
            </nav>
            {chosen === 'integration' && <Integration sitekey={key} show={show} />}
            {chosen === 'protection' && <PolicyForm id={id} policy={key.policy} show={show} />}
            {chosen === 'activity' && <Activity sitekey={key} />}
          </>
        );
      }}
    </Loaded>
  );
}
