// Moving a site or sitekey to another account of the user.
import type { UserError } from '../core/api';
import { Confirm } from '../core/dialog';
import { Select } from '../core/form';
import { t } from '../core/language';
import { go } from '../core/router';
import { announce, viewer } from '../core/store';
import { Group } from './group';

/** Transfer asks for one of the user's other accounts. It shows nothing if the user owns no other account. */
export function Transfer(props: {
  name: string;
  /** What moves. Without a hint, the button stands alone. */
  hint?: string;
  text?: string;
  from: string;
  to: string;
  run(toAccountId: string): Promise<UserError[]>;
}) {
  const others = (viewer.use()?.accounts ?? []).filter(({ id, viewerRole }) => id !== props.from && viewerRole === 'OWNER');
  if (others.length === 0) return null;

  const run = async ({ account = '' }: Record<string, string>): Promise<UserError[]> => {
    const errors = await props.run(account);
    if (errors.length === 0) {
      announce(t('transfer.done', { name: props.name }));
      go(props.to + '?account=' + account);
    }
    return errors;
  };
  const button = (
    <Confirm button={t('transfer.title')} title={t('transfer.title')} text={props.text ?? t('transfer.text')} name={props.name} run={run}>
      <Select name="account" label={t('transfer.to')} options={others.map(({ id, name }) => [id, name])} />
    </Confirm>
  );
  return props.hint ? (
    <Group line title={t('transfer.title')} hint={props.hint}>{button}</Group>
  ) : (
    button
  );
}
