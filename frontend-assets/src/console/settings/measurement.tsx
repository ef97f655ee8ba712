// What a site measures, and what its visits keep of browsers.
import { Field, type Values } from '../core/form';
import { t } from '../core/language';
import { oneText } from '../core/values';
import type { VisitDetail } from '../operations';
import { changes, checked } from '../parts/changes';
import { Check } from '../parts/check';
import { Group } from '../parts/group';
import { labelled, SiteSettings, switches } from './form';
import { Privacy } from './privacy';

const details: readonly VisitDetail[] = ['COUNTRY', 'BROWSER', 'SYSTEM', 'DEVICE', 'HOSTNAME'];

const input = (values: Values, form: HTMLFormElement) => {
  const visitDetails = checked(form, details);
  const on = Object.fromEntries(switches.map((name) => [name, name in values]));
  return { ...changes(form, { ...on, smallGroup: Number(values['smallGroup']) }), ...(visitDetails && { visitDetails }) };
};

export function Measurement({ id }: { id: string }) {
  return (
    <SiteSettings id={id} title={t('measurement.title')} lead={t('measurement.lead')} input={input}>
      {({ site, installation: { countries }, edit }) => (
        <>
          <Group title={t('measurement.events')}>
            {switches.map((key) => (
              <Check key={key} {...labelled(key)} checked={site[key]} disabled={!edit} />
            ))}
          </Group>
          <Group title={t('visitors.title')}>
            <p class="hint">{t('visitors.hint')}</p>
            <div class="facts" role="group" aria-label={t('visitors.title')}>
              {details.map((key) => {
                const set = site.visitDetails.includes(key);
                const missing = key === 'COUNTRY' && !countries;
                return <Check key={key} name={key} label={oneText(key)} checked={set} disabled={!edit || (missing && !set)} />;
              })}
            </div>
            {!countries && <p class="hint">{t('visitors.noCountries')}</p>}
          </Group>
          <Group title={t('visitors.small')}>
            <Field type="number" {...labelled('smallGroup')} value={String(site.smallGroup)} min="1" max="100" required disabled={!edit} />
          </Group>
          <Privacy site={site} />
        </>
      )}
    </SiteSettings>
  );
}
