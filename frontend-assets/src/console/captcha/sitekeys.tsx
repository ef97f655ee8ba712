// The list of sitekeys, and the form of a new one.
import type { ComponentChildren } from 'preact';
import type { UserError } from '../core/api';
import { useQuery } from '../core/data';
import { Action } from '../core/dialog';
import { Form, type Values } from '../core/form';
import { date, exact } from '../core/format';
import { t } from '../core/language';
import { go } from '../core/router';
import { Empty, Loaded } from '../core/states';
import { chosenAccount, mayEdit } from '../core/store';
import { Section, Table, Title } from '../core/ui';
import { createSitekey, sitekeys, viewer as readViewer, type SitekeysData } from '../operations';
import { Used } from '../parts/used';
import { created, domainsOf, NameAndDomains } from './fields';

/** Sitekeys lists the account's sitekeys, with the month's usage. */
export function Sitekeys() {
  const query = useQuery(sitekeys, { account: chosenAccount(), after: null });
  const button = mayEdit() && (
    <a class="button main" href="/captcha/new">{t('captcha.new')}</a>
  );
  return (
    <>
      <Title text={t('nav.captcha')}>
        {query.data?.account && <Month {...query.data.account.captchaUsage} />}
        {!!query.data?.sitekeys?.totalCount && button}
      </Title>
      <Loaded query={query}>
        {(data) => (
          <>
            {data.account && <Standing {...data.account.captchaUsage} />}
            <List data={data} show={query.set} button={button} />
          </>
        )}
      </Loaded>
    </>
  );
}

type Usage = NonNullable<SitekeysData['account']>['captchaUsage'];

/** Month shows how much of the quota is used. */
const Month = (usage: Usage) => (
  <Used used={usage.verifications} {...usage} label={t('captcha.usage')} text={t('captcha.unlimited', { n: usage.verifications })} />
);

/** Standing explains what happens once the quota is used. */
function Standing({ standing, reserve, reserveEndsAt, resetsAt }: Usage) {
  if (standing === 'EXHAUSTED') return <p class="notice bad">{t('captcha.exhausted', { date: date(resetsAt) })}</p>;
  if (standing !== 'IN_RESERVE') return null;
  return <p class="notice">{t('captcha.inReserve', { reserve: exact(reserve ?? 0), date: reserveEndsAt ? date(reserveEndsAt) : '' })}</p>;
}

function List({ data, show, button }: { data: SitekeysData; show(data: SitekeysData): void; button: ComponentChildren }) {
  const edges = data.sitekeys?.edges ?? [];
  const { captchaPlan, captchaUsage } = data.account ?? {};
  const hint = captchaPlan && t('captcha.usageHint', { plan: captchaPlan.replace(/_/g, ' '), date: date(captchaUsage!.resetsAt) });
  const more = async (): Promise<void> => {
    const next = await sitekeys({ account: chosenAccount(), after: data.sitekeys!.pageInfo.endCursor });
    if (next.sitekeys) show({ ...next, sitekeys: { ...next.sitekeys, edges: [...edges, ...next.sitekeys.edges] } });
  };

  if (edges.length === 0) {
    return (
      <Empty>
        <h2>{t('captcha.empty')}</h2>
        <p>{t('captcha.emptyText')}</p>
        {button}
      </Empty>
    );
  }
  return (
    <Section title={t('captcha.sitekeys', { n: data.sitekeys!.totalCount })} hint={hint}>
      <Table label={t('nav.captcha')} head={[t('captcha.name'), t('captcha.domains'), t('captcha.verified30'), t('captcha.state')]}>
        {edges.map(({ node: { id, name, domains, activity, attack, notice } }) => (
          <tr key={id}>
            <th scope="row">
              <a href={'/captcha/' + id}>{name}</a>
            </th>
            <td>{domains.join(', ') || t('captcha.anyPage')}</td>
            <td>
              <span class="inline">
                {exact(activity.reduce((sum, { verified }) => sum + verified, 0))}
                <Spark values={activity.map(({ verified }) => verified).toReversed()} />
              </span>
            </td>
            <td>
              {attack?.isActive ? (
                <span class="state FAILED">{t('captcha.attack')}</span>
              ) : (
                <span class="state">{t(notice ? 'captcha.someRefused' : 'captcha.normal')}</span>
              )}
            </td>
          </tr>
        ))}
      </Table>
      {data.sitekeys!.pageInfo.hasNextPage && <Action run={more}>{t('list.more')}</Action>}
    </Section>
  );
}

/** Spark draws a few values without axes. Their sum stands next to it. */
function Spark({ values }: { values: number[] }) {
  const most = Math.max(...values, 1);
  return (
    <svg class="spark" viewBox={`0 -1 ${Math.max(values.length - 1, 1)} ${most + 1}`} width="80" height="20" preserveAspectRatio="none" aria-hidden="true">
      <polyline points={values.map((value, i) => `${i},${most - value}`).join(' ')} vector-effect="non-scaling-stroke" />
    </svg>
  );
}

/** NewSitekey creates a sitekey; its page then shows the secret once. */
export function NewSitekey() {
  const reads = useQuery(readViewer, {}).data?.viewer?.role === 'VIEWER';
  const submit = async (values: Values): Promise<UserError[]> => {
    const input = { accountId: chosenAccount(), name: values['name'] ?? '', domains: domainsOf(values['domains']) };
    const payload = (await createSitekey({ input })).createSitekey;
    if (payload?.sitekey) {
      created.id = payload.sitekey.id;
      created.secret = payload.secret ?? '';
      go(`/captcha/${payload.sitekey.id}?tab=integration`);
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
        <Form submit={t('captcha.create')} onSubmit={submit} class="column"><NameAndDomains /></Form>
      )}
    </>
  );
}
