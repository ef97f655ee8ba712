// The props of the cards of a site's settings.
import type { UserError } from '../core/api';
import type { SettingsData, SettingsFields } from '../operations';

/** PartProps are the props of a card. */
export interface PartProps {
  site: NonNullable<SettingsData['site']>;
  installation: SettingsData['installation'];
  /** Shows the settings that a change has returned, and returns the change's errors. */
  show(payload: { site: SettingsFields | null; userErrors: UserError[] } | null): UserError[];
  edit: boolean;
}
