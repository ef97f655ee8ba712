// What the pages of sitekeys have in common.
import type { UserError } from '../core/api';
import { Field, TextArea } from '../core/form';
import { t } from '../core/language';
import type { SitekeyData } from '../operations';

export type Sitekey = NonNullable<SitekeyData['sitekey']>;

/** Show shows the result of a mutation, or returns its errors. */
export type Show = (payload: { sitekey: Partial<Sitekey> | null; userErrors: UserError[] } | null) => UserError[];

/** domainsOf splits the text of a form into domains. */
export const domainsOf = (text = ''): string[] => text.split(/[\s,]+/).filter(Boolean);

/** created hands a new secret from the form to the page of the new sitekey, without storing it. */
export const created = { id: '', secret: '' };

/** NameAndDomains are the fields of a new sitekey, or of one. */
export function NameAndDomains({ of }: { of?: Sitekey }) {
  const { name = '', domains = [] } = of ?? {};
  return (
    <>
      <Field name="name" label={t('captcha.name')} hint={t('captcha.nameHint')} value={name} maxLength={100} required autoFocus />
      <TextArea
        name="domains"
        label={t('captcha.domains')}
        hint={t('captcha.domainsHint')}
        value={domains.join('\n')}
        placeholder={'example.com\nlocalhost'}
        rows={3}
      />
    </>
  );
}
