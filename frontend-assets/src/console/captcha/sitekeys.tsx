// Captcha sitekeys.
import { useState } from 'preact/hooks';
import type { UserError } from '../core/api';
import { remembered } from '../core/choices';
import { useQuery } from '../core/data';
import { Action, Confirm } from '../core/dialog';
import { Field, Form, TextArea, type Values } from '../core/form';
import { exact, utcDay } from '../core/format';
import { language, t, translated } from '../core/language';
import { go } from '../core/router';
import { Empty, Loaded, Missing } from '../core/states';
import { announce, chosenAccount, isOwner, mayEdit } from '../core/store';
import { Section, Table, Time, Title } from '../core/ui';
import { milliseconds } from '../parts/format';
import { Code, Secret } from '../parts/copy';
import {
  createSitekey,
  deleteSitekey,
  revokeOldSitekeySecret,
  rotateSitekeySecret,
  sitekey as readSitekey,
  sitekeys,
  transferSitekey,
  updateSitekey,
  viewer as readViewer,
  type SitekeyData,
  type SitekeysData,
} from '../operations';
import { CaptchaUsage } from './usage';
import { changes } from '../parts/changes';
import { monthName } from '../parts/month';
import { KeepOld, OldSecret } from '../parts/secret';
import { Attack, PolicyForm } from './policy';
import { Group } from '../parts/group';
import { Transfer } from '../parts/transfer';

/** Sitekeys lists the account's sitekeys, with the month's usage. */
export function Sitekeys() {
  const query = useQuery(sitekeys, { account: chosenAccount(), after: null });
  const edit = mayEdit();
  return (
    <>
      <Title text={t('nav.captcha')}>
        {edit && (
          <a class="button main" href="/captcha/new">
            {t('captcha.new')}
          </a>
        )}
      </Title>
      <Loaded query={query}>
        {(data) => (
          <>
            {data.account && <CaptchaUsage plan={data.account.captchaPlan} usage={data.account.captchaUsage} />}
            <List data={data} show={query.set} />
          </>
        )}
      </Loaded>
    </>
  );
}

function List({ data, show }: { data: SitekeysData; show(data: SitekeysData): void }) {
  const edges = data.sitekeys?.edges ?? [];
  const more = async (): Promise<void> => {
    const next = await sitekeys({ account: chosenAccount(), after: data.sitekeys!.pageInfo.endCursor });
    if (next.sitekeys) show({ ...next, sitekeys: { ...next.sitekeys, edges: [...edges, ...next.sitekeys.edges] } });
  };

  if (edges.length === 0) {
    return (
      <Empty>
        <h2>{t('captcha.empty')}</h2>
        <p>{t('captcha.emptyText')}</p>
      </Empty>
    );
  }
  return (
    <Section title={t('captcha.sitekeys', { n: data.sitekeys!.totalCount })}>
      <Table
        label={t('nav.captcha')}
        head={[t('captcha.name'), t('captcha.domains'), t('captcha.sitekey'), t('captcha.created')]}
      >
        {edges.map(({ node }) => (
          <tr key={node.id}>
            <th scope="row">
              <a href={'/captcha/' + node.id}>{node.name}</a>
            </th>
            <td>{node.domains.join(', ') || t('captcha.anyPage')}</td>
            <td>
              <code>{node.sitekey}</code>
            </td>
            <td>
              <Time at={node.createdAt} />
            </td>
          </tr>
        ))}
      </Table>
      {data.sitekeys!.pageInfo.hasNextPage && <Action run={more}>{t('list.more')}</Action>}
    </Section>
  );
}

/** domainsOf splits the text of a form into domains. */
const domainsOf = (text = ''): string[] => text.split(/[\s,]+/).filter(Boolean);

/** created hands a new secret from the form to the page of the new sitekey, without storing it. */
const created = { id: '', secret: '' };

/** NewSitekey creates a sitekey; its page then shows the secret once. */
export function NewSitekey() {
  const reads = useQuery(readViewer, {}).data?.viewer?.role === 'VIEWER';
  const submit = async (values: Values): Promise<UserError[]> => {
    const payload = (
      await createSitekey({
        input: { accountId: chosenAccount(), name: values['name'] ?? '', domains: domainsOf(values['domains']) },
      })
    ).createSitekey;
    if (payload?.sitekey) {
      created.id = payload.sitekey.id;
      created.secret = payload.secret ?? '';
      go('/captcha/' + payload.sitekey.id);
    }
    return payload?.userErrors ?? [];
  };
  return (
    <>
      <p class="crumb">
        <a href="/captcha">{t('nav.captcha')}</a>
      </p>
      <Title text={t('captcha.new')} />
      {reads ? (
        <p class="notice">{t('failure.FORBIDDEN')}</p>
      ) : (
        <section class="card slim">
          <Form submit={t('captcha.create')} onSubmit={submit} class="column">
            <NameAndDomains />
          </Form>
        </section>
      )}
    </>
  );
}

/** NameAndDomains are the fields of a new sitekey, or of one. */
function NameAndDomains({ of, disabled = false }: { of?: Sitekey; disabled?: boolean }) {
  const name = of ? { value: of.name } : { hint: t('captcha.nameHint'), autoFocus: true };
  return (
    <>
      <Field name="name" label={t('captcha.name')} maxLength={100} required disabled={disabled} {...name} />
      <TextArea
        name="domains"
        label={t('captcha.domains')}
        hint={t('captcha.domainsHint')}
        value={of?.domains.join('\n') ?? ''}
        placeholder={'example.com\nlocalhost'}
        rows={3}
        disabled={disabled}
      />
    </>
  );
}

type Sitekey = NonNullable<SitekeyData['sitekey']>;

/** SitekeyPage shows how to use one sitekey, and changes it. */
export function SitekeyPage({ id }: { id: string }) {
  const query = useQuery(readSitekey, { id });
  const [secret, setSecret] = useState(created.id === id ? created.secret : '');

  return (
    <Loaded query={query} title={t('captcha.sitekey')}>
      {(data) => {
        const key = data.sitekey;
        if (!key) return <Missing />;

        const show = (payload: { sitekey: Partial<Sitekey> | null; userErrors: UserError[] } | null): UserError[] => {
          if (payload?.sitekey) {
            query.set({ ...data, sitekey: { ...key, ...payload.sitekey } });
            announce(t('saved'));
          }
          return payload?.userErrors ?? [];
        };
        const forget = (): void => {
          setSecret('');
          created.secret = '';
        };
        const rotate = async ({ keepOldFor = '0' }: Values): Promise<UserError[]> => {
          const input = { sitekeyId: id, keepOldFor: Number(keepOldFor) };
          const payload = (await rotateSitekeySecret({ input })).rotateSitekeySecret;
          setSecret(payload?.secret ?? '');
          return show(payload);
        };
        const save = async (values: Values, form: HTMLFormElement): Promise<UserError[]> => {
          const all = { name: values['name'] ?? '', domains: domainsOf(values['domains']) };
          return show((await updateSitekey({ input: { sitekeyId: id, ...changes(form, all) } })).updateSitekey);
        };
        const edit = mayEdit();

        return (
          <>
            <p class="crumb">
              <a href="/captcha">{t('nav.captcha')}</a>
            </p>
            <Title text={key.name} />
            {secret && <Secret text={secret} label={t('captcha.secret')} onDone={forget} />}
            {key.notice && <p class="notice">{key.notice}</p>}
            <Attack attack={key.attack} policy={key.policy} />
            <div class="columns">
              <Section title={t('captcha.widget')} hint={t('captcha.widgetHint')}>
                <Code text={key.widgetTag} label={t('captcha.widget')} />
                <h3>{t('install.csp')}</h3>
                <Code text={key.cspLines.join(';\n')} label={t('install.csp')} />
                <details>
                  <summary>{t('captcha.optionalCsp')}</summary>
                  <Code text={key.optionalCspLines.join(';\n')} label={t('captcha.optionalCsp')} />
                </details>
                <DropIn sitekey={key} />
              </Section>
              <Preview sitekey={key} />
            </div>
            <Activity sitekey={key} />
            <Section title={t('settings.general')}>
              <Form submit={t('save')} onSubmit={save} class="column" disabled={!edit}>
                <NameAndDomains of={key} disabled={!edit} />
              </Form>
            </Section>
            <PolicyForm id={id} policy={key.policy} show={show} />
            <Section title={t('captcha.secret')} hint={t('captcha.secretHint')}>
              <p>{t('settings.secretEnds', { hint: key.secretHint })}</p>
              <OldSecret
                hint={key.oldSecretHint}
                until={key.oldSecretValidUntil}
                revoke={
                  edit
                    ? async () =>
                        show((await revokeOldSitekeySecret({ input: { sitekeyId: id } })).revokeOldSitekeySecret)
                    : undefined
                }
              />
              {edit && (
                <Confirm
                  button={t('settings.secretRotate')}
                  title={t('settings.secretRotate')}
                  text={t('captcha.rotateText')}
                  name={key.name}
                  run={rotate}
                >
                  <KeepOld />
                </Confirm>
              )}
            </Section>
            {isOwner() && (
              <Transfer
                name={key.name}
                hint={t('transfer.sitekeyHint')}
                from={key.accountId}
                to="/captcha"
                run={async (toAccountId) =>
                  (await transferSitekey({ input: { sitekeyId: key.id, toAccountId } })).transferSitekey?.userErrors ??
                  []
                }
              />
            )}
            {isOwner() && <Delete sitekey={key} />}
          </>
        );
      }}
    </Loaded>
  );
}

/** dropIns are the paths of the script and of the check that stand in for another captcha's. */
const dropIns = [
  ['reCAPTCHA', '/recaptcha/api.js', '/recaptcha/api/siteverify'],
  ['hCaptcha', '/1/api.js', '/siteverify'],
  ['Turnstile', '/turnstile/v0/api.js', '/turnstile/v0/siteverify'],
] as const;

/** DropIn lists the addresses for pages that were made for another captcha. */
function DropIn({ sitekey }: { sitekey: Sitekey }) {
  const origin = sitekey.cspLines[0]!.replace('script-src ', '');
  return (
    <details>
      <summary>{t('captcha.dropIn')}</summary>
      <p class="hint">{t('captcha.dropInHint')}</p>
      {dropIns.map(([name, ...paths]) => (
        <div key={name}>
          <h3>{name}</h3>
          <Code text={paths.map((path) => origin + path).join('\n')} label={name} />
        </div>
      ))}
    </details>
  );
}

/** counts are what is counted each day. */
const counts = ['challenges', 'automated', 'solved', 'renewed', 'verified', 'unredeemed'] as const;

/** Activity shows what happened with the sitekey by day, and what to do about refused calls. */
function Activity({ sitekey }: { sitekey: Sitekey }) {
  const days = sitekey.activity;
  if (days.length === 0) return <Empty>{t('captcha.noActivity')}</Empty>;

  const refusals = new Map<string, Sitekey['activity'][number]['refusals'][number]>();
  for (const r of days.flatMap((day) => day.refusals)) {
    const key = r.endpoint + ' ' + r.code;
    refusals.set(key, { ...r, count: r.count + (refusals.get(key)?.count ?? 0) });
  }
  const sorted = [...refusals].sort(([, a], [, b]) => Number(a.expected) - Number(b.expected) || b.count - a.count);
  const months = sitekey.usageHistory.slice(0, sitekey.usageHistory.findLastIndex((month) => month.used > 0) + 1);

  return (
    <>
      {sorted.length > 0 && (
        <Section title={t('captcha.refusals')}>
          <ul class="plain">
            {sorted.map(([key, r]) => (
              <li key={key}>
                <code>{key}</code> <strong>{t('rejections.calls', { n: r.count })}</strong>
                {r.expected && <span class="hint"> {t('captcha.expected')}</span>}
                <p>{translated('advice', 'captcha.' + r.code, r.advice)}</p>
              </li>
            ))}
          </ul>
        </Section>
      )}
      <Section title={t('captcha.activity')} hint={t('captcha.activityHint')}>
        <Table
          label={t('captcha.activity')}
          head={[t('captcha.day'), ...counts.map((name) => t(`captcha.${name}`)), t('captcha.work'), t('captcha.refused')]}
        >
          {days.map((day) => (
            <tr key={day.day}>
              <th scope="row">{utcDay(day.day)}</th>
              {counts.map((name) => (
                <td key={name} class="number">
                  {exact(day[name])}
                </td>
              ))}
              <td class="number">{day.medianWorkMs === null ? '–' : milliseconds(day.medianWorkMs)}</td>
              <td class="number">{exact(day.refusals.reduce((sum, r) => sum + r.count, 0))}</td>
            </tr>
          ))}
        </Table>
      </Section>
      {months.length > 1 && (
        <Section title={t('captcha.months')}>
          <Table label={t('captcha.months')} head={[t('captcha.month'), t('captcha.verified')]}>
            {months.map(({ period, used }) => (
              <tr key={period}>
                <th scope="row">{monthName(period)}</th>
                <td class="number">{exact(used)}</td>
              </tr>
            ))}
          </Table>
        </Section>
      )}
    </>
  );
}

/** Preview shows the widget at work in a frame. The frame's policy allows the captcha's host. */
function Preview({ sitekey }: { sitekey: Sitekey }) {
  const [count, setCount] = useState(0);
  const host = location.hostname;
  const allowed = sitekey.domains.length === 0 || sitekey.domains.some((d) => host === d || host.endsWith('.' + d));
  const address =
    '/captcha-preview?' +
    new URLSearchParams({ sitekey: sitekey.sitekey, lang: language(), theme: remembered('theme') });
  return (
    <Section title={t('captcha.preview')} hint={t('captcha.previewHint')}>
      {allowed ? (
        <>
          <iframe key={count} class="preview" src={address} title={t('captcha.preview')} />
          <button type="button" class="small" onClick={() => setCount(count + 1)}>
            {t('captcha.previewAgain')}
          </button>
        </>
      ) : (
        <p class="notice">{t('captcha.previewRefused', { host })}</p>
      )}
    </Section>
  );
}

function Delete({ sitekey }: { sitekey: Sitekey }) {
  const run = async ({ confirm = '' }: Values): Promise<UserError[]> => {
    const errors = (await deleteSitekey({ input: { sitekeyId: sitekey.id, confirm } })).deleteSitekey?.userErrors ?? [];
    if (errors.length === 0) {
      announce(t('settings.deleted', { name: sitekey.name }));
      go('/captcha');
    }
    return errors;
  };
  return (
    <Group line title={t('captcha.delete')} hint={t('captcha.deleteHint')}>
      <Confirm
        button={t('captcha.delete')}
        title={t('captcha.delete')}
        text={t('captcha.deleteText')}
        name={sitekey.name}
        run={run}
      />
    </Group>
  );
}
