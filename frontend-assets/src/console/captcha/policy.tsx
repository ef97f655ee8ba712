// How much work a sitekey asks for, and what that costs.
import type { UserError } from '../core/api';
import { Field, Form, Select, TextArea, type Values } from '../core/form';
import { dateTime, decimal, exact } from '../core/format';
import { t } from '../core/language';
import { mayEdit } from '../core/store';
import { Section, Table } from '../core/ui';
import { milliseconds } from '../parts/format';
import { Check } from '../parts/check';
import { updateCaptchaPolicy, type SitekeyData, type UpdateCaptchaPolicyData } from '../operations';
import { changes } from '../parts/changes';

type Sitekey = NonNullable<SitekeyData['sitekey']>;
type Policy = Sitekey['policy'];

/** Attack shows an attack of the last week. */
export function Attack({ attack, policy }: { attack: Sitekey['attack']; policy: Policy }) {
  if (!attack || Date.parse(attack.seenAt) < Date.now() - 7 * 86_400_000) return null;
  const { isActive, factor, networks, challenges, usualNetworks, refused } = attack;
  const hashes = challenges * attack.highestFactor * policy.baseHashes;
  return (
    <p class="notice">
      {t(isActive ? 'captcha.attackNow' : 'captcha.attackOver', { n: factor })}{' '}
      {t('captcha.attackTimes', { since: dateTime(attack.since), seen: dateTime(attack.seenAt) })}{' '}
      {t('captcha.attackFigures', {
        challenges: exact(challenges),
        networks: exact(networks),
        usual: exact(usualNetworks),
        refused: exact(refused),
      })}{' '}
      {t('captcha.attackCost', { core: price(hashes, 'core'), card: price(hashes, 'card') })}
    </p>
  );
}

const automations = ['HARDER', 'ALLOW', 'LIMIT'] as const;
const modes = ['AUTO', 'ON', 'OFF'] as const;

/** PolicyForm changes the policy of a sitekey. */
export function PolicyForm(props: {
  id: string;
  policy: Policy;
  show(payload: UpdateCaptchaPolicyData['updateCaptchaPolicy']): UserError[];
}) {
  const { id, policy, show } = props;
  const edit = mayEdit();
  const save = async (values: Values, form: HTMLFormElement): Promise<UserError[]> => {
    const all = {
      baseSeconds: Number(values['baseSeconds']),
      maxSeconds: Number(values['maxSeconds']),
      freeChallenges: Number(values['freeChallenges']),
      automation: values['automation'] as Policy['automation'],
      strict: 'strict' in values,
      attackMode: values['attackMode'] as Policy['attackMode'],
      exemptNetworks: (values['exemptNetworks'] ?? '').split(/[\s,]+/).filter(Boolean),
    };
    return show((await updateCaptchaPolicy({ input: { sitekeyId: id, ...changes(form, all) } })).updateCaptchaPolicy);
  };

  const number = { type: 'number', min: '0', disabled: !edit };
  return (
    <Section title={t('captcha.policy')} hint={t('captcha.policyHint')}>
      <Form submit={t('captcha.policySave')} onSubmit={save} class="column" disabled={!edit} label={t('captcha.policy')}>
        {(['base', 'max'] as const).map((kind) => (
          <Field
            {...number}
            key={kind}
            name={`${kind}Seconds`}
            step="any"
            max="60"
            label={t(`captcha.${kind}`)}
            hint={t(`captcha.${kind}Hint`, { hashes: exact(policy[`${kind}Hashes`]) })}
            value={String((kind === 'base' ? policy.isBaseDefault : policy.isMaxDefault) ? 0 : policy[`${kind}Seconds`])}
          />
        ))}
        <Field
          {...number}
          name="freeChallenges"
          max="1000"
          label={t('captcha.free')}
          hint={t('captcha.freeHint')}
          value={String(policy.freeChallenges)}
        />
        <Select
          name="automation"
          label={t('captcha.automation')}
          hint={t('captcha.automationHint')}
          value={policy.automation}
          options={automations.map((kind) => [kind, t(`captcha.automation.${kind}`)])}
          disabled={!edit}
        />
        <Check
          name="strict"
          label={t('captcha.strict')}
          hint={t('captcha.strictHint')}
          checked={policy.strict}
          disabled={!edit}
        />
        <Select
          name="attackMode"
          label={t('captcha.attackMode')}
          value={policy.attackMode}
          options={modes.map((mode) => [mode, t(`captcha.attackMode.${mode}`)])}
          disabled={!edit}
        />
        <TextArea
          name="exemptNetworks"
          label={t('captcha.exempt')}
          hint={t('captcha.exemptHint')}
          value={policy.exemptNetworks.join('\n')}
          rows={2}
          disabled={!edit}
        />
      </Form>
      <details>
        <summary>{t('captcha.cost')}</summary>
        <Costs policy={policy} />
      </details>
    </Section>
  );
}

/**
 * Hashes a second of visitors' devices and of attackers' machines, and what an hour of these costs in US dollars
 * (docs/owner/captcha.md, "What the work costs").
 */
const devices = { desktop: 13e6, phone: 3e6, oldPhone: 0.6e6 } as const;
const attackers = { core: { rate: 68e6, hour: 0.04 }, card: { rate: 22e9, hour: 0.34 } } as const;

/** rounded returns a number with two significant digits. */
const rounded = (n: number): number => Number(n.toPrecision(2));

/** price returns what an attacker pays for hashes. */
const price = (hashes: number, machine: keyof typeof attackers): string => {
  const dollars = (hashes / attackers[machine].rate / 3600) * attackers[machine].hour;
  return (dollars < 0.01 ? '< ' + decimal(0.01) : decimal(rounded(dollars))) + ' $';
};

/** Costs shows what the work costs visitors in time and attackers in money. */
function Costs({ policy }: { policy: Policy }) {
  const work = [policy.baseHashes, policy.maxHashes];
  return (
    <>
      <Table label={t('captcha.cost')} head={[t('captcha.cost'), t('captcha.costBase'), t('captcha.costMax')]}>
        {(['desktop', 'phone', 'oldPhone'] as const).map((device) => (
          <tr key={device}>
            <th scope="row">{t(`captcha.cost.${device}`)}</th>
            {work.map((hashes) => (
              <td class="number">{milliseconds(rounded((hashes / devices[device]) * 1000))}</td>
            ))}
          </tr>
        ))}
        {(['core', 'card'] as const).map((machine) => (
          <tr key={machine}>
            <th scope="row">{t(`captcha.cost.${machine}`)}</th>
            {work.map((hashes) => (
              <td class="number">{price(1e6 * hashes, machine)}</td>
            ))}
          </tr>
        ))}
      </Table>
      <p class="hint">{t('captcha.costHint')}</p>
    </>
  );
}
