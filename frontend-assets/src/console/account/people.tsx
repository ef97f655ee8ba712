// The account and its people: members and sessions.
import { useState } from 'preact/hooks';
import type { UserError } from '../core/api';
import { useQuery } from '../core/data';
import { Action, Confirm } from '../core/dialog';
import { Field, Form, Password, Select, type Values } from '../core/form';
import { date } from '../core/format';
import { t, type TextKey } from '../core/language';
import { go } from '../core/router';
import { Loaded, Missing } from '../core/states';
import { announce, chosenAccount, isGuest, isOwner, viewer } from '../core/store';
import { Section, Table, Time, Title } from '../core/ui';
import {
  account as readAccount,
  accountCaptcha,
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
  revokeSession,
  sessions,
  setMemberRole,
  signOut,
  updateAccount,
  type MembersData,
  type Role,
  type ViewerFields,
} from '../operations';
import { Group } from '../parts/group';
import { CaptchaUsage } from '../parts/captchausage';
import { NewPassword } from './newpassword';
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

/** Account shows the account and the user, changes them, and leaves or deletes the account. */
export function Account() {
  const query = useQuery(readAccount, { account: chosenAccount() });
  const [tokenNames, setTokenNames] = useState<string[]>([]);
  const [changes, setChanges] = useState(0);

  const change = async ({ currentPassword = '', password = '' }: Values): Promise<UserError[]> => {
    const payload = (await changePassword({ input: { currentPassword, password } })).changePassword;
    if (payload?.viewer) {
      announce(t('account.passwordChanged'));
      setChanges(changes + 1); // a new form, without the passwords
      setTokenNames(payload.apiTokens.map((token) => token.name));
    }
    return payload?.userErrors ?? [];
  };

  return (
    <>
      <Title text={t('nav.account')} />
      <Loaded query={query}>
        {({ viewer: user, account, installation }) => {
          if (!user || !account) return <Missing />;
          const isLast = user.accounts.length === 1;
          const named = (key: 'account.leave' | 'account.delete') => ({ button: t(key), title: t(key) });
          const left = (errors: UserError[]): UserError[] => {
            if (errors.length === 0 && !isLast) enterAccount(null);
            else if (errors.length === 0) {
              viewer.set(null);
              go('/sign-in');
            }
            return errors;
          };
          const remove = async ({ password = '', confirm = '' }: Values): Promise<UserError[]> =>
            left((await deleteAccount({ input: { accountId: account.id, password, confirm } })).deleteAccount?.userErrors ?? []);
          const leave = async (): Promise<UserError[]> =>
            left((await leaveAccount({ input: { accountId: account.id } })).leaveAccount?.userErrors ?? []);
          const rename = async ({ name = '' }: Values): Promise<UserError[]> => {
            const errors =
              (await updateAccount({ input: { accountId: account.id, name } })).updateAccount?.userErrors ?? [];
            if (errors.length === 0) {
              announce(t('saved'));
              await query.reload();
            }
            return errors;
          };
          return (
            <>
              <Section title={account.name}>
                <dl class="facts">
                  <div>
                    <dt>{t('email')}</dt>
                    <dd>{user.email}</dd>
                  </div>
                  <div>
                    <dt>{t('member.role')}</dt>
                    <dd>
                      {t(`role.${isGuest(user) ? 'GUEST' : (account.viewerRole ?? user.role)}`)}
                      {user.operator && ', ' + t('member.operator')}
                    </dd>
                  </div>
                  <div>
                    <dt>{t('account.since')}</dt>
                    <dd>{date(account.createdAt)}</dd>
                  </div>
                  <div>
                    <dt>{t('account.id')}</dt>
                    <dd>
                      <code>{account.id}</code>
                    </dd>
                  </div>
                </dl>
                {isOwner(user) && (
                  <Form key={account.name} submit={t('account.rename')} onSubmit={rename} class="row">
                    <Field name="name" label={t('account.name')} value={account.name} maxLength={100} required />
                  </Form>
                )}
              </Section>
              {!isGuest(user) && (
                <p class="aside">
                  <a href="/alerts">{t('account.alerts')}</a>
                  {isOwner(user) && <a href="/deleted">{t('deleted.title')}</a>}
                </p>
              )}
              {!isGuest(user) && <AccountCaptcha />}
              <Section title={t('account.password')} hint={t('account.passwordHint')}>
                {tokenNames.length > 0 && (
                  <p class="notice">
                    {t('account.tokensStay', { names: tokenNames.join(', ') })} <a href="/tokens">{t('nav.tokens')}</a>
                  </p>
                )}
                <Form key={changes} submit={t('account.password')} onSubmit={change} class="column">
                  <input type="email" name="username" autocomplete="username" value={user.email} hidden readOnly />
                  <Password name="currentPassword" label={t('password.current')} autoComplete="current-password" required />
                  <NewPassword label={t('password.new')} />
                </Form>
              </Section>
              {installation.sendsMail && <Email user={user} />}
              {(installation.signUps || user.operator) && <NewAccount />}
              <Group line title={t('account.leave')} hint={t('account.leaveHint')}>
                <Confirm {...named('account.leave')} text={t(isLast ? 'account.leaveLast' : 'account.leaveText')} name={account.name} run={leave} />
              </Group>
              {isOwner(user) && (
                <Group line title={t('account.delete')} hint={t('account.deleteHint')}>
                  <Confirm {...named('account.delete')} text={t('account.deleteText')} name={account.name} run={remove}>
                    <Password name="password" label={t('password.current')} autoComplete="current-password" required />
                  </Confirm>
                </Group>
              )}
            </>
          );
        }}
      </Loaded>
    </>
  );
}

/** AccountCaptcha shows the use of the captcha quota, which guests must not read. */
function AccountCaptcha() {
  const query = useQuery(accountCaptcha, { account: chosenAccount() });
  return (
    <Loaded query={query}>
      {({ account }) => account && <CaptchaUsage plan={account.captchaPlan} usage={account.captchaUsage} />}
    </Loaded>
  );
}

/** Email requests a change of the user's address. */
function Email({ user }: { user: ViewerFields }) {
  const [sentTo, setSentTo] = useState('');
  const submit = async ({ email = '', password = '' }: Values): Promise<UserError[]> => {
    const errors = (await requestEmailChange({ input: { email, password } })).requestEmailChange?.userErrors ?? [];
    if (errors.length === 0) setSentTo(email);
    return errors;
  };
  return (
    <Section title={t('email.change')} hint={t('email.changeHint', { email: user.email })}>
      {sentTo ? (
        <p role="status">{t('email.sent', { email: sentTo })}</p>
      ) : (
        <Form submit={t('email.change')} onSubmit={submit} class="column">
          <Field name="email" type="email" label={t('email.new')} autoComplete="email" required />
          <Password name="password" label={t('password')} autoComplete="current-password" required />
        </Form>
      )}
    </Section>
  );
}

/** NewAccount creates a further account of the user. */
function NewAccount() {
  const submit = async ({ name = '' }: Values): Promise<UserError[]> => {
    const payload = (await createAccount({ input: { name } })).createAccount;
    if (payload?.account) enterAccount(payload.account.id);
    return payload?.userErrors ?? [];
  };
  return (
    <Section title={t('account.new')} hint={t('account.newHint')}>
      <Form submit={t('account.create')} onSubmit={submit} class="row">
        <Field name="name" label={t('account.name')} maxLength={100} required />
      </Form>
    </Section>
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
            <a class="button main" href="/">
              {t('nav.sites')}
            </a>
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
    <>
      <Title text={t('nav.members')} />
      {!isGuest() && (
        <p>
          <a href="/alerts">{t('account.alerts')}</a>
        </p>
      )}
      <Loaded query={query}>{(data) => (data.account ? <MemberLists data={data} reload={query.reload} /> : <Missing />)}</Loaded>
    </>
  );
}

function MemberLists({ data, reload }: { data: MembersData; reload(): Promise<void> }) {
  const user = data.viewer!;
  const account = data.account!;
  const accountId = chosenAccount();
  const owner = isOwner(user);
  const [invited, setInvited] = useState(0);
  const [access, setAccess] = useState<Access>('MEMBER');

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
    if (errors.length === 0) {
      announce(t('member.invited', { email }));
      setInvited(invited + 1);
      setAccess('MEMBER');
    }
    return errors;
  };

  return (
    <>
      <Section title={t('member.members', { n: account.members.length })}>
        <Table
          label={t('nav.members')}
          head={[t('email'), t('member.role'), t('member.since'), ...(owner ? [t('events.action')] : [])]}
        >
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
              <td>
                <Time at={m.createdAt} />
              </td>
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
        <dl class="roles hint">
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
          <Table
            label={t('member.invitations')}
            head={[t('email'), t('member.role'), t('member.expires'), t('events.action')]}
          >
            {account.invitations.map((i) => (
              <tr key={i.id}>
                <th scope="row">{i.email}</th>
                <td>
                  <span>
                    {t(`role.${accessOf(i)}`)}
                    {i.siteIds && <span class="hint"> {domains(i.siteIds, account.sites)}</span>}
                  </span>
                </td>
                <td>
                  <Time at={i.expiresAt} />
                </td>
                <td class="number">
                  <Action
                    label={t('member.revokeNamed', { email: i.email })}
                    run={async () =>
                      after((await revokeInvitation({ input: { invitationId: i.id } })).revokeInvitation)
                    }
                  >
                    {t('member.revoke')}
                  </Action>
                </td>
              </tr>
            ))}
          </Table>
        </Section>
      )}
      {owner && (
        <Section title={t('member.invite')} hint={t('member.inviteHint')}>
          {!data.installation.sendsMail && <p class="notice">{t('member.noMail')}</p>}
          <Form
            key={invited}
            submit={t('member.invite')}
            onSubmit={invite}
            class={access === 'GUEST' ? 'column' : 'row'}
            disabled={!data.installation.sendsMail}
            label={t('member.invite')}
          >
            <Field name="email" type="email" label={t('email')} required disabled={!data.installation.sendsMail} />
            <Select
              name="role"
              label={t('member.role')}
              value="MEMBER"
              options={accesses.map((role) => [role, t(`role.${role}`)])}
              onChange={(value) => setAccess(value as Access)}
            />
            {access === 'GUEST' && <SiteChoice legend={t('member.sites')} sites={account.sites} />}
          </Form>
        </Section>
      )}
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
          {accesses.map((r) => (
            <option key={r} value={r}>
              {t(`role.${r}`)}
            </option>
          ))}
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

/** Sessions lists the browsers where the user is signed in. */
export function Sessions() {
  const query = useQuery(sessions, {});
  const leave = async (): Promise<void> => {
    await signOut({ input: { everywhere: true } });
    viewer.set(null);
    go('/sign-in');
  };
  const head: TextKey[] = ['session.lastSeen', 'session.since', 'session.expires', 'events.action'];
  return (
    <>
      <Title text={t('nav.sessions')}>
        <Action danger run={leave}>
          {t('session.endAll')}
        </Action>
      </Title>
      <Loaded query={query}>
        {(data) => (
          <section class="card">
            <Table label={t('nav.sessions')} head={head.map((key) => t(key))}>
              {data.sessions.map((s) => (
                <tr key={s.id}>
                  <th scope="row">
                    <Time at={s.lastSeenAt} /> {s.current && <span class="hint">{t('session.current')}</span>}
                  </th>
                  <td>{date(s.createdAt)}</td>
                  <td>{date(s.expiresAt)}</td>
                  <td class="number">
                    {!s.current && (
                      <Action
                        done={t('session.ended')}
                        run={async () => {
                          const errors =
                            (await revokeSession({ input: { sessionId: s.id } })).revokeSession?.userErrors ?? [];
                          if (errors.length === 0) await query.reload();
                          return errors;
                        }}
                      >
                        {t('session.end')}
                      </Action>
                    )}
                  </td>
                </tr>
              ))}
            </Table>
          </section>
        )}
      </Loaded>
    </>
  );
}
