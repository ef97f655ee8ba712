// The account, its user and its members.
import { useState } from 'preact/hooks';
import type { UserError } from '../core/api';
import { useQuery } from '../core/data';
import { Action, Confirm } from '../core/dialog';
import { Field, Form, Select, type Values } from '../core/form';
import { t } from '../core/language';
import { go } from '../core/router';
import { Loaded, Missing } from '../core/states';
import { announce, chosenAccount, isGuest, isOwner, viewer } from '../core/store';
import { Section, Table, Time, Title } from '../core/ui';
import {
  account as readAccount,
  changePassword,
  confirmEmailChange,
  createAccount,
  deleteAccount,
  inviteMember,
  leaveAccount,
  members,
  removeMember,
  requestEmailChange,
  revokeInvitation,
  setMemberRole,
  updateAccount,
  type MembersData,
  type Role,
} from '../operations';
import { Ask } from '../parts/ask';
import { CopyButton } from '../parts/copy';
import { Group, Row } from '../parts/group';
import { AccountPage } from '../parts/menu';
import { CurrentPassword, NewPassword } from './newpassword';
import { chosenSites, domains, SiteChoice, type Sites } from './sitechoice';

/** Access is a role in the whole account, or that of a guest: the role VIEWER for some sites. */
type Access = Role | 'GUEST';

const accesses: Access[] = ['OWNER', 'MEMBER', 'VIEWER', 'GUEST'];

/** accessOf returns the access of a member or an invitation. */
const accessOf = (of: { role: Role; siteIds: string[] | null }): Access => (of.siteIds ? 'GUEST' : of.role);

/** accessInput is the access as mutations take it. */
const accessInput = (access: Access, siteIds: string[]): { role: Role; siteIds: string[] | null } =>
  access === 'GUEST' ? { role: 'VIEWER', siteIds } : { role: access, siteIds: null };

/** enterAccount shows the list of sites of an account; null is the default account. */
function enterAccount(id: string | null): void {
  viewer.set(undefined); // its memberships have changed, and go must not keep the account
  go(id ? '/?account=' + id : '/');
}

/** Account shows the user and the account, changes them, and leaves or deletes the account. */
export function Account() {
  const query = useQuery(readAccount, { account: chosenAccount() });
  const [tokenNames, setTokenNames] = useState<string[]>([]);
  const [sentTo, setSentTo] = useState('');
  return (
    <AccountPage title={t('nav.account')}>
      <Loaded query={query}>
        {({ viewer: user, account, installation }) => {
          if (!user || !account) return <Missing />;
          const accountId = account.id;
          const isLast = user.accounts.length === 1;
          const named = (key: 'leave' | 'delete') => ({ button: t(`account.${key}Now`), title: t(`account.${key}`), name: account.name });
          const left = (errors: UserError[] = []): UserError[] => {
            if (errors.length === 0 && !isLast) enterAccount(null);
            else if (errors.length === 0) {
              viewer.set(null);
              go('/sign-in');
            }
            return errors;
          };
          const rename = async ({ name = '' }: Values): Promise<UserError[]> => {
            const errors = (await updateAccount({ input: { accountId, name } })).updateAccount?.userErrors ?? [];
            if (errors.length === 0) await query.reload();
            return errors;
          };
          const changeEmail = async ({ email = '', password = '' }: Values): Promise<UserError[]> => {
            const errors = (await requestEmailChange({ input: { email, password } })).requestEmailChange?.userErrors ?? [];
            if (errors.length === 0) setSentTo(email);
            return errors;
          };
          const change = async ({ currentPassword = '', password = '' }: Values): Promise<UserError[]> => {
            const payload = (await changePassword({ input: { currentPassword, password } })).changePassword;
            if (payload?.viewer) {
              announce(t('account.passwordChanged'));
              setTokenNames(payload.apiTokens.map((token) => token.name));
            }
            return payload?.userErrors ?? [];
          };
          const create = async ({ name = '' }: Values): Promise<UserError[]> => {
            const payload = (await createAccount({ input: { name } })).createAccount;
            if (payload?.account) enterAccount(payload.account.id);
            return payload?.userErrors ?? [];
          };
          const nameField = (value = '') => <Field name="name" label={t('account.name')} value={value} maxLength={100} required autoFocus />;
          return (
            <>
              <Group title={t('account.you')}>
                <ul class="rows">
                  <Row name={t('email')} text={<span role="status">{sentTo ? t('email.sent', { email: sentTo }) : user.email}</span>}>
                    {installation.sendsMail && (
                      <Ask button={t('member.change')} label={t('email.change')} text={t('email.changeHint', { email: user.email })} run={changeEmail}>
                        <Field name="email" type="email" label={t('email.new')} autoComplete="email" required autoFocus />
                        <CurrentPassword />
                      </Ask>
                    )}
                  </Row>
                  <Row name={t('password')} text={tokenNames[0] && <a href="/tokens">{t('account.tokensStay', { names: tokenNames.join(', ') })}</a>}>
                    <Ask button={t('member.change')} label={t('account.password')} text={t('account.passwordHint')} run={change}>
                      <input type="email" name="username" autocomplete="username" value={user.email} hidden readOnly />
                      <CurrentPassword name="currentPassword" autoFocus />
                      <NewPassword label={t('password.new')} />
                    </Ask>
                  </Row>
                  <Row name={t('member.role')} text={t(`role.${isGuest(user) ? 'GUEST' : (account.viewerRole ?? user.role)}`) + (user.operator ? ', ' + t('member.operator') : '')} />
                </ul>
              </Group>
              <Group title={t('nav.account')}>
                <ul class="rows">
                  <Row name={t('account.name')} text={account.name}>
                    {isOwner(user) && (
                      <Ask button={t('account.rename')} run={rename}>{nameField(account.name)}</Ask>
                    )}
                  </Row>
                  <Row name={t('account.id')} text={<code>{accountId}</code>}><CopyButton text={accountId} label={t('account.id')} /></Row>
                </ul>
              </Group>
              <Group title={t('account.more')}>
                <ul class="rows">
                  {(installation.signUps || user.operator) && (
                    <Row name={t('account.new')} text={t('account.newHint')}>
                      <Ask button={t('account.create')} run={create}>{nameField()}</Ask>
                    </Row>
                  )}
                  <Row name={t('account.leave')} text={t('account.leaveHint')}>
                    <Confirm
                      {...named('leave')}
                      text={t(isLast ? 'account.leaveLast' : 'account.leaveText')}
                      run={async () => left((await leaveAccount({ input: { accountId } })).leaveAccount?.userErrors)}
                    />
                  </Row>
                  {isOwner(user) && (
                    <Row name={t('account.delete')} text={t('account.deleteHint')}>
                      <Confirm
                        {...named('delete')}
                        text={t('account.deleteText')}
                        run={async ({ password = '', confirm = '' }) =>
                          left((await deleteAccount({ input: { accountId, password, confirm } })).deleteAccount?.userErrors)
                        }
                      >
                        <CurrentPassword />
                      </Confirm>
                    </Row>
                  )}
                </ul>
              </Group>
            </>
          );
        }}
      </Loaded>
    </AccountPage>
  );
}

/** ConfirmEmail changes the user's address with a mailed link. */
export function ConfirmEmail() {
  const [secret] = useState(location.hash.slice(1));
  const [email, setEmail] = useState('');
  const submit = async (): Promise<UserError[]> => {
    const payload = (await confirmEmailChange({ input: { secret } })).confirmEmailChange;
    if (payload?.email) {
      history.replaceState(null, '', location.pathname);
      setEmail(payload.email);
    }
    return payload?.userErrors ?? [];
  };
  return (
    <>
      <Title text={t('email.confirm')} />
      {email ? (
        <>
          <p role="status">{t('email.changed', { email })}</p>
          <p>
            <a class="button main" href="/">{t('nav.sites')}</a>
          </p>
        </>
      ) : (
        <>
          <p>{t('email.confirmText')}</p>
          <Form submit={t('email.confirm')} onSubmit={submit} />
        </>
      )}
    </>
  );
}

/** Members lists users and invitations. Owners invite, change roles and remove. */
export function Members() {
  const query = useQuery(members, { account: chosenAccount() });
  return (
    <AccountPage title={t('nav.members')}>
      <Loaded query={query}>{(data) => (data.account ? <MemberLists data={data} reload={query.reload} /> : <Missing />)}</Loaded>
    </AccountPage>
  );
}

function MemberLists({ data, reload }: { data: MembersData; reload(): Promise<void> }) {
  const user = data.viewer!;
  const account = data.account!;
  const accountId = chosenAccount();
  const owner = isOwner(user);

  /** after reads the lists again once a mutation has succeeded. */
  const after = async (payload: { userErrors: UserError[] } | null): Promise<UserError[]> => {
    const errors = payload?.userErrors ?? [];
    if (errors.length === 0) await reload();
    return errors;
  };
  const invite = async (values: Values): Promise<UserError[]> => {
    const { email = '', role = '' } = values;
    const input = { accountId, email, ...accessInput(role as Access, chosenSites(values)) };
    const errors = await after((await inviteMember({ input })).inviteMember);
    if (errors.length === 0) announce(t('member.invited', { email }));
    return errors;
  };

  return (
    <>
      <Section title={t('member.members', { n: account.members.length })}>
        <Table label={t('nav.members')} head={[t('email'), t('member.role'), t('member.since'), ...(owner ? [t('events.action')] : [])]}>
          {account.members.map((m) => (
            <tr key={m.id}>
              <th scope="row">
                {m.email}
                {m.id === user.id && <span class="hint"> {t('member.you')}</span>}
                {m.operator && <span class="hint"> {t('member.operator')}</span>}
              </th>
              <td>
                {owner ? (
                  <AccessPicker
                    key={m.role + m.siteIds}
                    member={m}
                    sites={account.sites}
                    set={async (input) =>
                      after((await setMemberRole({ input: { accountId, userId: m.id, ...input } })).setMemberRole)
                    }
                  />
                ) : (
                  t(`role.${accessOf(m)}`)
                )}
              </td>
              <td><Time at={m.createdAt} /></td>
              {owner && (
                <td class="number">
                  {m.id !== user.id && (
                    <Confirm
                      button={t('member.remove')}
                      title={t('member.remove')}
                      text={t('member.removeText')}
                      name={m.email}
                      run={async () => after((await removeMember({ input: { accountId, userId: m.id } })).removeMember)}
                    />
                  )}
                </td>
              )}
            </tr>
          ))}
        </Table>
        <dl class="keys hint">
          {accesses.map((role) => (
            <div key={role}>
              <dt>{t(`role.${role}`)}</dt>
              <dd>{t(`role.${role}.hint`)}</dd>
            </div>
          ))}
        </dl>
      </Section>
      {account.invitations.length > 0 && (
        <Section title={t('member.invitations')}>
          <Table label={t('member.invitations')} head={[t('email'), t('member.role'), t('member.expires'), t('events.action')]}>
            {account.invitations.map((i) => (
              <tr key={i.id}>
                <th scope="row">{i.email}</th>
                <td>
                  <span>
                    {t(`role.${accessOf(i)}`)}
                    {i.siteIds && <span class="hint"> {domains(i.siteIds, account.sites)}</span>}
                  </span>
                </td>
                <td><Time at={i.expiresAt} /></td>
                <td class="number">
                  <Action
                    label={t('member.revokeNamed', { email: i.email })}
                    run={async () => after((await revokeInvitation({ input: { invitationId: i.id } })).revokeInvitation)}
                  >
                    {t('member.revoke')}
                  </Action>
                </td>
              </tr>
            ))}
          </Table>
        </Section>
      )}
      {owner && !data.installation.sendsMail && <p class="notice">{t('member.noMail')}</p>}
      {owner && data.installation.sendsMail && (
        <Ask main button={t('member.invite')} text={t('member.inviteHint')} run={invite}><InvitationFields sites={account.sites} /></Ask>
      )}
    </>
  );
}

/** InvitationFields ask for the sites of a guest. */
function InvitationFields({ sites }: { sites: Sites }) {
  const [access, setAccess] = useState('MEMBER');
  return (
    <>
      <Field name="email" type="email" label={t('email')} required autoFocus />
      <Select name="role" label={t('member.role')} value="MEMBER" options={accesses.map((role) => [role, t(`role.${role}`)])} onChange={setAccess} />
      {access === 'GUEST' && <SiteChoice legend={t('member.sites')} sites={sites} />}
    </>
  );
}

/** AccessPicker changes the role of a member, and the sites of a guest. */
function AccessPicker(props: {
  member: { email: string; role: Role; siteIds: string[] | null };
  sites: Sites;
  set(input: { role: Role; siteIds: string[] | null }): Promise<UserError[]>;
}) {
  const { member, sites, set } = props;
  const [access, setAccess] = useState(accessOf(member));
  const [open, setOpen] = useState(false);

  // A site that was deleted cannot be chosen again.
  const listed = (id: string): boolean => !!sites?.nodes.some((site) => site.id === id);
  const others = sites?.pageInfo?.hasNextPage ? (member.siteIds?.filter((id) => !listed(id)) ?? []) : [];
  const saved = async (input: { role: Role; siteIds: string[] | null }): Promise<UserError[]> => {
    const errors = await set(input);
    if (errors.length === 0) announce(t('saved'));
    return errors;
  };

  return (
    <div>
      <span class="inline">
        <select
          aria-label={t('member.roleOf', { email: member.email })}
          value={access}
          onChange={(e) => {
            setAccess(e.currentTarget.value as Access);
            setOpen(true);
          }}
        >
          {accesses.map((r) => <option key={r} value={r}>{t(`role.${r}`)}</option>)}
        </select>
        {access !== 'GUEST' && access !== accessOf(member) && (
          <Action run={() => saved(accessInput(access, []))}>{t('save')}</Action>
        )}
        {access === 'GUEST' && !open && (
          <button type="button" class="small" aria-label={t('member.sitesOf', { email: member.email })} onClick={() => setOpen(true)}>
            {t('member.change')}
          </button>
        )}
      </span>
      {access === 'GUEST' && !open && member.siteIds && <span class="hint"> {domains(member.siteIds, sites)}</span>}
      {access === 'GUEST' && open && (
        <Form
          submit={t('save')}
          label={t('member.sitesOf', { email: member.email })}
          class="column"
          onSubmit={(values) => saved(accessInput('GUEST', [...chosenSites(values), ...others]))}
        >
          <SiteChoice legend={t('member.sites')} sites={sites} chosen={member.siteIds ?? []} />
        </Form>
      )}
    </div>
  );
}
