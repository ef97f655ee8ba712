// Pages of a site's settings.
import type { ComponentChildren } from 'preact';
import type { UserError } from '../core/api';
import { useQuery } from '../core/data';
import type { Values } from '../core/form';
import { t } from '../core/language';
import { Missing } from '../core/states';
import { announce, mayEdit } from '../core/store';
import { settings, updateSite, type SettingsData, type SettingsFields, type UpdateSiteInput } from '../operations';
import { SaveForm } from '../parts/saving';
import { SettingsPage } from '../parts/settings';

export interface SettingsProps {
  site: NonNullable<SettingsData['site']>;
  installation: SettingsData['installation'];
  /** Shows the settings that a change has returned, and returns the change's errors. */
  show(payload: { site: SettingsFields | null; userErrors: UserError[] } | null): UserError[];
  edit: boolean;
}

export const switches = ['automaticEvents', 'measureSiteSearch', 'measureEcommerce', 'allowPseudonymousUserId'] as const;

/** labelled returns the name and the texts of a field. */
export const labelled = (name: (typeof switches)[number] | 'timeZone' | 'smallGroup') =>
  ({ name, label: t(`settings.${name}`), hint: t(`settings.${name}Hint`) });

/** SiteSettings is a page of a site's settings. With input, it is a form whose changed fields input returns. */
export function SiteSettings(props: {
  id: string;
  title: string;
  lead: string;
  input?(values: Values, form: HTMLFormElement): Omit<UpdateSiteInput, 'siteId'>;
  children(props: SettingsProps): ComponentChildren;
}) {
  const { id, input } = props;
  const query = useQuery(settings, { id });
  const edit = mayEdit();
  return (
    <SettingsPage id={id} query={query} title={props.title}>
      {(data) => {
        const { site, installation } = data;
        if (!site) return <Missing />;

        const show: SettingsProps['show'] = (payload) => {
          if (payload?.site) {
            query.set({ ...data, site: { ...site, ...payload.site } });
            announce(t('saved'));
          }
          return payload?.userErrors ?? [];
        };
        const save = async (values: Values, form: HTMLFormElement): Promise<UserError[]> =>
          show((await updateSite({ input: { siteId: id, ...input!(values, form) } })).updateSite);
        const content = props.children({ site, installation, show, edit });
        return (
          <>
            <p class="lead">{props.lead}</p>
            {!edit && <p class="notice">{t('readOnly')}</p>}
            {input ? <SaveForm onSubmit={save} disabled={!edit}>{content}</SaveForm> : content}
          </>
        );
      }}
    </SettingsPage>
  );
}
