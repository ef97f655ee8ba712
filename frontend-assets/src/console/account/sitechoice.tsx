// The choice of the sites that an API token or a guest reaches.
import type { ComponentChildren } from 'preact';
import { type Values } from '../core/form';
import { t } from '../core/language';
import { Check } from '../parts/check';

/** Sites are the account's sites that can be chosen, by domain; more means that the account has others. */
export type Sites = { nodes: { id: string; domain: string }[]; pageInfo?: { hasNextPage: boolean } } | null;

/** prefix begins the names of the checkboxes. */
const prefix = 'site:';

/** chosenSites returns the ids of the sites that are chosen in a form. */
export const chosenSites = (values: Values): string[] =>
  Object.keys(values)
    .filter((name) => name.startsWith(prefix))
    .map((name) => name.slice(prefix.length));

/** domains returns the domains of sites, also of those that have left the account. */
export const domains = (ids: string[], sites?: Sites): string =>
  ids.map((id) => sites?.nodes.find((site) => site.id === id)?.domain ?? t('token.lostSite')).join(', ');

/** SiteChoice has a checkbox for each site. */
export function SiteChoice(props: { legend: string; hint?: ComponentChildren; sites: Sites | undefined; chosen?: string[] }) {
  return (
    <fieldset>
      <legend>{props.legend}</legend>
      {props.hint && <p class="hint">{props.hint}</p>}
      {props.sites?.nodes.map(({ id, domain }) => (
        <Check key={id} name={prefix + id} label={domain} checked={props.chosen?.includes(id) ?? false} />
      ))}
    </fieldset>
  );
}
