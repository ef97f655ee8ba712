// Hits that a site does not store.
import type { Values } from '../core/form';
import { t } from '../core/language';
import { codeName } from '../core/values';
import type { Shield } from '../operations';
import { changes, checked } from '../parts/changes';
import { Check } from '../parts/check';
import { countryCode } from '../parts/countries';
import { Group } from '../parts/group';
import { Rows, rowsOf } from '../parts/rows';
import { SiteSettings } from './form';

const shields: readonly Shield[] = ['REFERRER_SPAM', 'DATA_CENTRES'];

const input = (values: Values, form: HTMLFormElement) => {
  const chosen = checked(form, shields);
  const lists = changes(form, {
    excludedAddresses: rowsOf(values['excludedAddresses']),
    excludedCountries: rowsOf(values['excludedCountries']).map(countryCode),
    excludedPaths: rowsOf(values['excludedPaths']),
  });
  return { ...lists, ...(chosen && { shields: chosen }) };
};

export function Exclusions({ id }: { id: string }) {
  return (
    <SiteSettings id={id} title={t('exclusions.title')} lead={t('leftOut.hint')} input={input}>
      {({ site, installation: { countries, shields: lists }, edit }) => {
        const offered = shields.filter((shield) => lists.includes(shield) || site.shields.includes(shield));
        const names = site.excludedCountries.map((code) => codeName('region', code));
        const texts = (key: 'address' | 'country' | 'path') => ({ label: t(`leftOut.${key}`), add: t(`leftOut.${key}Add`) });
        return (
          <>
            <Group title={t('leftOut.addresses')} hint={t('leftOut.addressesHint')}>
              <Rows name="excludedAddresses" {...texts('address')} values={site.excludedAddresses} disabled={!edit} />
            </Group>
            <Group title={t('leftOut.countries')} hint={t(countries ? 'leftOut.countriesHint' : 'visitors.noCountries')}>
              <Rows name="excludedCountries" {...texts('country')} values={names} disabled={!edit || (!countries && !names[0])} lines />
            </Group>
            <Group title={t('leftOut.paths')} hint={t('leftOut.pathsHint')}>
              <Rows name="excludedPaths" {...texts('path')} values={site.excludedPaths} disabled={!edit} lines />
            </Group>
            {offered[0] && (
              <Group title={t('leftOut.lists')}>
                {offered.map((key) => {
                  const texts = { label: t(`leftOut.${key}`), hint: t(`leftOut.${key}Hint`) };
                  return <Check key={key} name={key} {...texts} checked={site.shields.includes(key)} disabled={!edit} />;
                })}
              </Group>
            )}
          </>
        );
      }}
    </SiteSettings>
  );
}
