// API tokens: the user's own, and for owners also the tokens of the account's other members.
import { useState } from 'preact/hooks';
import type { UserError } from '../core/api';
import { useQuery } from '../core/data';
import { Confirm } from '../core/dialog';
import { Field, Select, type Values } from '../core/form';
import { date } from '../core/format';
import { t } from '../core/language';
import { Empty, Loaded } from '../core/states';
import { chosenAccount, mayEdit } from '../core/store';
import { Section, Table, Time } from '../core/ui';
import { Ask } from '../parts/ask';
import { Check } from '../parts/check';
import { Code, Secret } from '../parts/copy';
import { AccountPage } from '../parts/menu';
import {
  createToken,
  revokeToken,
  tokens,
  type ApiTokenScope,
  type TokenFields,
  type TokensData,
} from '../operations';
import { chosenSites, domains, SiteChoice } from './sitechoice';

const scopes: ApiTokenScope[] = ['READ', 'WRITE', 'EXPORT'];

/** days are the choices of a token's life; 0 is without an end. */
const days = [30, 90, 365, 0];

/** Tokens lists API tokens. A new token is shown once. */
export function Tokens() {
  const query = useQuery(tokens, { account: chosenAccount() });
  const [secret, setSecret] = useState('');
  const create = async (values: Values): Promise<UserError[]> => {
    const chosen = chosenSites(values);
    const life = Number(values['life']);
    const payload = (
      await createToken({
        input: {
          accountId: chosenAccount(),
          name: values['name'] ?? '',
          scopes: scopes.filter((scope) => scope in values),
          siteIds: chosen.length > 0 ? chosen : null,
          ...(life > 0 ? { expiresInDays: life } : { neverExpires: true }),
        },
      })
    ).createApiToken;
    if (payload?.token) {
      setSecret(payload.token);
      await query.reload();
    }
    return payload?.userErrors ?? [];
  };

  return (
    <AccountPage title={t('nav.tokens')}>
      <p class="lead">{t('token.hint')}</p>
      {secret && <Secret text={secret} label={t('token.token')} onDone={() => setSecret('')} />}
      <Loaded query={query}>
        {(data) => {
          const isEmpty = data.apiTokens.length === 0;
          const add = (
            <Ask main button={t('token.create')} run={create}>
              <Field name="name" label={t('token.name')} hint={t('token.nameHint')} maxLength={100} required autoFocus />
              <Select
                name="life"
                label={t('token.life')}
                hint={t('token.lifeHint')}
                value="365"
                options={days.map((n) => [String(n), n > 0 ? t('token.days', { n }) : t('token.endless')])}
              />
              <fieldset>
                <legend>{t('token.scopes')}</legend>
                {scopes.filter((scope) => scope !== 'WRITE' || mayEdit()).map((scope) => (
                  <Check
                    key={scope}
                    name={scope}
                    label={t(`scope.${scope}`)}
                    hint={t(`scope.${scope}.hint`)}
                    checked={scope === 'READ'}
                  />
                ))}
              </fieldset>
              {(data.account?.sites?.nodes.length ?? 0) > 1 && (
                <SiteChoice legend={t('token.sites')} hint={t('token.sitesHint')} sites={data.account?.sites} />
              )}
            </Ask>
          );
          return (
            <>
              {isEmpty ? (
                <Empty>
                  <p>{t('token.none')}</p>
                  {add}
                </Empty>
              ) : (
                <List title={t('token.tokens')} list={data.apiTokens} data={data} reload={query.reload} />
              )}
              <OfOthers data={data} reload={query.reload} />
              {!isEmpty && <p class="lead">{add}</p>}
              <Section title={t('token.assistant')}>
                <p class="hint">{t('token.assistantHint')}</p>
                <Code text={`${location.origin}/mcp`} label={t('token.assistantAddress')} />
              </Section>
            </>
          );
        }}
      </Loaded>
    </AccountPage>
  );
}

/** OfOthers lists the tokens of the account's other members. The list is empty unless the user is an owner. */
function OfOthers({ data, reload }: { data: TokensData; reload(): Promise<void> }) {
  const others = data.account?.apiTokens.filter((token) => token.user?.id !== data.viewer?.id) ?? [];
  if (others.length === 0) return null;
  return <List title={t('token.others')} list={others} data={data} reload={reload} />;
}

function List(props: {
  title: string;
  list: (TokenFields & { user?: { email: string } | null })[];
  data: TokensData;
  reload(): Promise<void>;
}) {
  const { viewer: user, account } = props.data;
  const revoke = async (id: string): Promise<UserError[]> => {
    const errors = (await revokeToken({ input: { apiTokenId: id } })).revokeApiToken?.userErrors ?? [];
    if (errors.length === 0) await props.reload();
    return errors;
  };
  return (
    <Section title={props.title}>
      <Table
        label={props.title}
        head={[t('token.name'), t('token.scopes'), t('token.ends'), t('token.lastUsed'), t('token.until'), t('events.action')]}
      >
        {props.list.map((token) => (
          <tr key={token.id}>
            <th scope="row">
              {token.name}
              {token.user && <span class="hint"> {token.user.email}</span>}
              {!token.user && user && user.accounts.length > 1 && (
                <span class="hint"> {user.accounts.find(({ id }) => id === token.accountId)?.name}</span>
              )}
            </th>
            <td>
              <span>
                {token.scopes.map((scope) => t(`scope.${scope}`)).join(', ')}
                {token.siteIds && <span class="hint"> {domains(token.siteIds, account?.sites)}</span>}
              </span>
            </td>
            <td>
              <code>…{token.hint}</code>
            </td>
            <td>{token.lastUsedAt ? <Time at={token.lastUsedAt} /> : t('token.never')}</td>
            <td>{token.validUntil ? date(token.validUntil) : t('token.endless')}</td>
            <td class="number">
              <Confirm
                button={t('token.revoke')}
                title={t('token.revoke')}
                text={t('token.revokeText')}
                name={token.name}
                run={() => revoke(token.id)}
              />
            </td>
          </tr>
        ))}
      </Table>
    </Section>
  );
}
