// What a site keeps of its visitors, and which hits it leaves out.
import type { UserError } from '../core/api';
import { Field, Form, TextArea, type Values } from '../core/form';
import { t } from '../core/language';
import { Section } from '../core/ui';
import { codeName, oneText } from '../core/values';
import { Check } from '../parts/check';
import { type Shield, updateSite, type VisitDetail } from '../operations';
import { changes, checked } from '../parts/changes';
import { countryCode } from '../parts/countries';
import { inLine, linesOf } from './lines';
import type { PartProps } from './part';

const details: readonly VisitDetail[] = ['COUNTRY', 'BROWSER', 'SYSTEM', 'DEVICE', 'HOSTNAME'];
const shields: readonly Shield[] = ['REFERRER_SPAM', 'DATA_CENTRES'];

/** Visitors chooses what visits keep of browsers, and how small a group may be in reports. */
export function Visitors({ site, installation, show, edit }: PartProps) {
  const save = async (values: Values, form: HTMLFormElement): Promise<UserError[]> => {
    const kept = checked(form, details);
    const input = {
      siteId: site.id,
      ...(kept && { visitDetails: kept }),
      ...changes(form, { smallGroup: Number(values['smallGroup']) }),
    };
    return show((await updateSite({ input })).updateSite);
  };
  return (
    <Section title={t('visitors.title')} hint={t('visitors.hint')}>
      <Form submit={t('save')} onSubmit={save} class="column" label={t('visitors.title')} disabled={!edit}>
        {details.map((detail) => {
          const set = site.visitDetails.includes(detail);
          const missing = detail === 'COUNTRY' && !installation.countries;
          return (
            <Check
              key={detail}
              name={detail}
              label={oneText(detail)}
              hint={t(missing ? 'visitors.noCountries' : `visitors.${detail}`)}
              checked={set}
              disabled={!edit || (missing && !set)}
            />
          );
        })}
        <Field
          name="smallGroup"
          type="number"
          label={t('visitors.smallGroup')}
          hint={t('visitors.smallGroupHint')}
          value={String(site.smallGroup)}
          min="1"
          max="100"
          required
          disabled={!edit}
        />
      </Form>
    </Section>
  );
}

/** LeftOut chooses hits that are not stored: by country, page, and the operator's lists. */
export function LeftOut({ site, installation, show, edit }: PartProps) {
  const save = async (values: Values, form: HTMLFormElement): Promise<UserError[]> => {
    const countries = linesOf(values['excludedCountries']);
    const paths = linesOf(values['excludedPaths']);
    const chosen = checked(form, shields);
    const input = {
      siteId: site.id,
      ...(chosen && { shields: chosen }),
      ...changes(form, {
        excludedCountries: countries.map(({ text }) => countryCode(text)),
        excludedPaths: paths.map(({ text }) => text),
      }),
    };
    const errors = show((await updateSite({ input })).updateSite);
    return errors.map((error) => inLine(error, error.field?.[1] === 'excludedPaths' ? paths : countries));
  };
  return (
    <Section title={t('leftOut.title')} hint={t('leftOut.hint')}>
      <Form submit={t('save')} onSubmit={save} class="column" label={t('leftOut.title')} disabled={!edit}>
        <TextArea
          name="excludedCountries"
          label={t('leftOut.countries')}
          hint={installation.countries ? undefined : t('visitors.noCountries')}
          value={site.excludedCountries.map((code) => codeName('region', code)).join('\n')}
          rows={3}
          disabled={!edit || (!installation.countries && !site.excludedCountries[0])}
        />
        <TextArea
          name="excludedPaths"
          label={t('leftOut.paths')}
          hint={t('leftOut.pathsHint')}
          value={site.excludedPaths.join('\n')}
          placeholder="/admin/**"
          rows={3}
          disabled={!edit}
        />
        {shields.map((shield) => {
          const set = site.shields.includes(shield);
          const missing = !installation.shields.includes(shield);
          return (
            <Check
              key={shield}
              name={shield}
              label={t(`leftOut.${shield}`)}
              hint={t(missing ? 'leftOut.noList' : `leftOut.${shield}Hint`)}
              checked={set}
              disabled={!edit || (missing && !set)}
            />
          );
        })}
      </Form>
    </Section>
  );
}
