// A field for a password that a user chooses.
import { Password } from '../core/form';
import { t } from '../core/language';

/** NewPassword is a field for a password that a user chooses. */
export const NewPassword = (props: { label: string; autoFocus?: boolean }) => (
  <Password
    name="password"
    hint={t('password.hint')}
    autoComplete="new-password"
    required
    minLength={10}
    {...props}
  />
);
