// Changes of the audit log in words.
import { dateTime } from '../core/format';
import { t, translated, type TextKey } from '../core/language';
import { filterLabel } from '../core/values';
import type { AuditFields } from '../operations';

/** differences returns the changes of an entry whose values differ. */
export const differences = ({ changes }: AuditFields) => changes.filter(({ before, after }) => before !== after);

/** alike has the actions that another action's sentence describes. */
const alike: Record<string, string> = {
  signInWithPasskey: 'signIn',
  finishProviderSignIn: 'signIn',
  confirmSignUp: 'signUp',
  changePassword: 'resetPassword',
  rotateServerSecret: 'rotateSecret',
  rotateSitekeySecret: 'rotateSecret',
  revokeServerSecret: 'revokeSecret',
  revokeOldServerSecret: 'revokeOldSecret',
  revokeOldSitekeySecret: 'revokeOldSecret',
  setConversionWebhook: 'setWebhook',
  setDailyExportWebhook: 'setWebhook',
};

/** whoText names the author of a change. */
function whoText({ kind, email, apiTokenName }: AuditFields['actor']): string {
  if (!email) return t(`audit.by.${kind}` as TextKey);
  const by = apiTokenName ?? (kind === 'OPERATOR' ? fieldText('operator') : '');
  return by ? `${email} (${by})` : email;
}

/** mark stands for the object in a sentence. */
const mark = '\0';

/** sentence returns what stands before the name of the object and what follows it, or one text without the object. */
export function sentence(entry: AuditFields): string[] {
  const { action, object } = entry;
  const found = differences(entry);
  // The volume of a plan follows from the plan.
  const [change = found[0], another] = found.filter(({ name }) => name !== 'monthlyPageviews');
  const verb = /^(?:admin )?([a-z]+)/.exec(action)?.[1] ?? '';
  const values = {
    who: whoText(entry.actor),
    object: mark,
    value: valueText(change?.after ?? change?.before ?? null),
    verb: translated('audit.verb', verb, t('audit.verb.set')),
    what: translated('audit.what', object.type, mark, { object: mark }),
  };
  const own = translated('audit.do', alike[action] ?? action, '', values);
  const field = change && !another ? translated('audit.of', change.name, '') : '';
  const changed = values.verb === t('audit.verb.set') && found.length > 0;
  const isMoved = field && change?.before && change.after;
  const text = isMoved
    ? t('audit.fromTo', { ...values, field, before: valueText(change.before), after: valueText(change.after) })
    : own || t('audit.did', values) + (changed ? ': ' + found.map(({ name }) => fieldText(name)).join(', ') : '');
  return text.split(mark);
}

/** fieldText returns the console's name of a value. */
export const fieldText = (name: string): string => translated('audit.field', name, name);

/** itemText writes an item of a list: a step of a funnel, a filter of a segment, or a text. */
function itemText(item: unknown): string {
  if (typeof item !== 'object' || !item) return valueText(String(item));
  if ('dimension' in item) {
    const { what, operator, values } = filterLabel(item as never);
    return `${what} ${operator} ${values}`;
  }
  const { label, event, page } = item as Record<string, string>;
  const fields = Object.entries(item).map(([name, value]) => `${fieldText(name)}: ${itemText(value)}`);
  return label ?? event ?? page ?? fields.join(', ');
}

/** valueText writes a value of a change as the console shows it. */
export function valueText(value: string | null): string {
  if (!value || value === '[]') return '–';
  if (/^\d{4}-\d\d-\d\dT/.test(value)) return dateTime(value);
  if (!/^[[{]/.test(value)) return translated('audit.is', value, /^[A-Z][A-Z_0-9]+$/.test(value) ? value.replace(/_/g, ' ') : value);
  try {
    return [JSON.parse(value)].flat().map(itemText).join(', ');
  } catch {
    return value; // it was cut
  }
}
