// A secret that replaces another one, which can stay valid for some days.
import type { UserError } from '../core/api';
import { Action } from '../core/dialog';
import { Select } from '../core/form';
import { date } from '../core/format';
import { t } from '../core/language';

/** KeepOld asks for how long the replaced secret stays valid. */
export function KeepOld() {
  return (
    <Select
      name="keepOldFor"
      label={t('secret.keepOld')}
      hint={t('secret.keepOldHint')}
      value="1"
      options={[
        ['0', t('secret.keepNot')],
        ['1', t('secret.keepDay')],
        ['7', t('secret.keepWeek')],
      ]}
    />
  );
}

/** OldSecret shows that a replaced secret is still valid, and revokes it. */
export function OldSecret(props: { hint: string | null; until: string | null; revoke?: (() => Promise<UserError[]>) | undefined }) {
  if (!props.hint || !props.until) return null;
  return (
    <p class="notice">
      {t('secret.old', { hint: props.hint, date: date(props.until) })}{' '}
      {props.revoke && <Action run={props.revoke}>{t('secret.revokeOld')}</Action>}
    </p>
  );
}
