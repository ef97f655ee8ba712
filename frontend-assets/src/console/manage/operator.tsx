// The page of the installation's operators: what waits, the clocks, and the plans of sites and accounts.
import {
  announce,
  exact,
  Field,
  Form,
  Loaded,
  milliseconds,
  Section,
  Select,
  t,
  Time,
  Title,
  usePolling,
  useQuery,
  type ComponentChildren,
  type UserError,
  type Values,
} from '../core';
import {
  operator,
  setCaptchaPlan,
  setSitePlan,
  type CaptchaPlan,
  type OperatorData,
  type SitePlan,
} from '../operations';

type Health = NonNullable<OperatorData['installationHealth']>;

const sitePlans: SitePlan[] = ['FREE', 'PRO_100K', 'PRO_500K', 'PRO_1M', 'PRO_2M', 'PRO_5M', 'ENTERPRISE'];
const captchaPlans: CaptchaPlan[] = ['FREE', 'PRO_100K', 'PRO_250K', 'PRO_500K', 'PRO_1M', 'ENTERPRISE'];

/** Operator shows the state of the installation, and sets plans. */
export function Operator() {
  const query = useQuery(operator, {});
  usePolling(query.reload, 15_000);
  return (
    <>
      <Title text={t('nav.operator')} />
      <Loaded query={query}>
        {({ installationHealth: health }) =>
          health && (
            <>
              <Health health={health} />
              <div class="columns">
                <SitePlans />
                <CaptchaPlans />
              </div>
            </>
          )
        }
      </Loaded>
    </>
  );
}

const workerLate = 5 * 60_000; // a worker notes the time every minute
const deliveryLate = 10 * 60_000;
const clockLate = 60_000; // beyond it the service refuses to start

function Health({ health: h }: { health: Health }) {
  const age = (at: string | null): number => (at ? Date.now() - Date.parse(at) : 0);
  const problems = [
    (!h.workerSeenAt || age(h.workerSeenAt) > workerLate) && t('operator.noWorker'),
    !h.clockTrusted && t('operator.clockJumped'),
    Math.abs(h.clockAheadMs) > clockLate && t('operator.clockDiffers'),
    age(h.oldestDueAt) > deliveryLate && t('operator.deliveriesLate'),
  ].filter((problem) => problem !== false);

  const facts: [string, ComponentChildren][] = [
    [t('operator.version'), h.version],
    [t('operator.database'), h.database === 'postgres' ? 'PostgreSQL' : 'SQLite'],
    [t('operator.worker'), h.workerSeenAt ? <Time at={h.workerSeenAt} /> : t('operator.never')],
    [t('operator.clock'), milliseconds(Math.abs(h.clockAheadMs))],
    [t('operator.due'), exact(h.dueDeliveries)],
    [t('operator.pending'), exact(h.pendingDeliveries)],
    [t('operator.oldest'), h.oldestDueAt ? <Time at={h.oldestDueAt} /> : '–'],
    [t('operator.mails'), exact(h.dueMails)],
    [t('operator.reports'), exact(h.dueReports)],
  ];
  return (
    <Section title={t('operator.state')} hint={t('operator.stateHint')}>
      {problems.length > 0 ? (
        <ul class="notice plain" role="status">
          {problems.map((problem) => (
            <li key={problem}>{problem}</li>
          ))}
        </ul>
      ) : (
        <p class="notice good">{t('operator.fine')}</p>
      )}
      <dl class="facts even">
        {facts.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
    </Section>
  );
}

/** planName writes a plan: "PRO 100K". */
const planName = (plan: string): string => plan.replace(/_/g, ' ');

function SitePlans() {
  const set = async ({ siteId = '', plan = '', monthlyPageviews = '' }: Values): Promise<UserError[]> => {
    const input = {
      siteId: siteId.trim(),
      plan: plan as SitePlan,
      ...(monthlyPageviews && { monthlyPageviews: Number(monthlyPageviews) }),
    };
    const payload = (await setSitePlan({ input })).setSitePlan;
    if (payload?.usage) announce(t('operator.planSet', { plan: planName(plan), quota: payload.usage.quota }));
    return payload?.userErrors ?? [];
  };
  return (
    <Section title={t('operator.sitePlan')} hint={t('operator.sitePlanHint')}>
      <Form submit={t('operator.set')} onSubmit={set} class="column" label={t('operator.sitePlan')}>
        <Field name="siteId" label={t('operator.siteId')} required />
        <Select name="plan" label={t('operator.plan')} options={sitePlans.map((plan) => [plan, planName(plan)])} />
        <Field
          name="monthlyPageviews"
          type="number"
          min="1"
          label={t('operator.volume')}
          hint={t('operator.volumeHint')}
        />
      </Form>
    </Section>
  );
}

function CaptchaPlans() {
  const set = async ({ accountId = '', plan = '' }: Values): Promise<UserError[]> => {
    const input = { accountId: accountId.trim(), plan: plan as CaptchaPlan };
    const payload = (await setCaptchaPlan({ input })).setCaptchaPlan;
    if (payload?.captchaPlan) announce(t('saved'));
    return payload?.userErrors ?? [];
  };
  return (
    <Section title={t('operator.captchaPlan')} hint={t('operator.captchaPlanHint')}>
      <Form submit={t('operator.set')} onSubmit={set} class="column" label={t('operator.captchaPlan')}>
        <Field name="accountId" label={t('operator.accountId')} required />
        <Select name="plan" label={t('operator.plan')} options={captchaPlans.map((plan) => [plan, planName(plan)])} />
      </Form>
    </Section>
  );
}
