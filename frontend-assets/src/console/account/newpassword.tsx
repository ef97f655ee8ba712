// Fields for passwords.
import { Password } from '../core/form';
import { t } from '../core/language';

/** NewPassword is a field for a password that a user chooses. */
export const NewPassword = (props: { label: string; autoFocus?: boolean }) => (
  <Password name="password" hint={t('password.hint')} autoComplete="new-password" required minLength={10} {...props} />
);

/** CurrentPassword is the field for the password of the user. */
export const CurrentPassword = (props: { name?: string; autoFocus?: boolean }) => (
  <Password name="password" label={t('password.current')} autoComplete="current-password" required {...props} />
);
