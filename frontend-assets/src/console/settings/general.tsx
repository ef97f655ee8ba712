// The name, the time zone and the domains of a site.
import { Field, Select, type Values } from '../core/form';
import { t } from '../core/language';
import { changes } from '../parts/changes';
import { Code } from '../parts/copy';
import { Group } from '../parts/group';
import { Rows, rowsOf } from '../parts/rows';
import { zones } from '../parts/zones';
import { labelled, SiteSettings } from './form';

const input = ({ name = '', timeZone = '', extraDomains }: Values, form: HTMLFormElement) =>
  changes(form, { name, timeZone, extraDomains: rowsOf(extraDomains) });

export function General({ id }: { id: string }) {
  return (
    <SiteSettings id={id} title={t('menu.general')} lead={t('general.lead')} input={input}>
      {({ site: { name, timeZone, displayDomain, extraDomains, siteKey }, edit }) => (
        <>
          <Group title={t('settings.basics')}>
            <Field name="name" label={t('settings.name')} value={name} maxLength={100} required disabled={!edit} />
            <Select {...labelled('timeZone')} value={timeZone} options={zones(timeZone)} disabled={!edit} />
          </Group>
          <Group title={t('settings.domains')} hint={t('settings.domainsHint')}>
            <Rows name="extraDomains" label={t('settings.domain')} values={extraDomains} add={t('settings.addDomain')} disabled={!edit}>
              <li><input value={displayDomain} aria-label={t('settings.domain')} readOnly /></li>
            </Rows>
          </Group>
          <Group title={t('settings.siteKey')} hint={t('settings.siteKeyHint')}>
            <Code text={siteKey} label={t('settings.siteKey')} />
          </Group>
        </>
      )}
    </SiteSettings>
  );
}
