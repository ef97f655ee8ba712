// How much work a sitekey asks for, and what that costs.
import type { UserError } from '../core/api';
import { Field, Form, Select, TextArea, type Values } from '../core/form';
import { dateTime, decimal, exact } from '../core/format';
import { t } from '../core/language';
import { mayEdit } from '../core/store';
import { Section, Table } from '../core/ui';
import { milliseconds } from '../parts/format';
import { Check } from '../parts/check';
import { updateCaptchaPolicy } from '../operations';
import { changes } from '../parts/changes';
import type { Show, Sitekey } from './fields';

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

/** presets are the levels of protection, with the values of their fields. 0 is the default of the installation. */
const presets = {
  gentle: { baseSeconds: 0.05, maxSeconds: 1, freeChallenges: 50, automation: 'ALLOW', strict: false, attackMode: 'AUTO' },
  usual: { baseSeconds: 0, maxSeconds: 0, freeChallenges: 8, automation: 'HARDER', strict: false, attackMode: 'AUTO' },
  strict: { baseSeconds: 1, maxSeconds: 20, freeChallenges: 3, automation: 'LIMIT', strict: true, attackMode: 'AUTO' },
} as const;

type LevelName = keyof typeof presets;
type Level = Pick<Policy, keyof (typeof presets)['usual']>;

/** cost writes the time on a phone, and the price of a million solutions. */
const cost = (seconds: number | false): string =>
  seconds ? t('captcha.levelCost', { time: milliseconds(rounded(seconds * 1000)), price: price(1e6 * seconds * devices.phone, 'core') }) : '';

/** PolicyForm changes the policy of a sitekey: a level of protection, or each value. */
export function PolicyForm({ id, policy, show }: { id: string; policy: Policy; show: Show }) {
  const edit = mayEdit();
  const now: Level = {
    ...policy,
    baseSeconds: policy.isBaseDefault ? 0 : policy.baseSeconds,
    maxSeconds: policy.isMaxDefault ? 0 : policy.maxSeconds,
  };
  const fields = Object.keys(presets.usual) as (keyof Level)[];
  const level = Object.entries(presets).find(([, preset]) => fields.every((name) => preset[name] === now[name]))?.[0];
  const save = async (values: Values, form: HTMLFormElement): Promise<UserError[]> => {
    const all = {
      ...Object.fromEntries(fields.map((name) => [name, typeof now[name] === 'number' ? Number(values[name]) : values[name]])),
      strict: 'strict' in values,
      exemptNetworks: (values['exemptNetworks'] ?? '').split(/[\s,]+/).filter(Boolean),
    };
    return show((await updateCaptchaPolicy({ input: { sitekeyId: id, ...changes(form, all) } })).updateCaptchaPolicy);
  };

  /** fill sets the fields to the values of a level. */
  const fill = (form: HTMLFormElement, preset: Level): void => {
    for (const name of fields) {
      const field = form.elements.namedItem(name) as HTMLInputElement;
      if (field.type === 'checkbox') field.checked = !!preset[name];
      else field.value = String(preset[name]);
    }
  };
  const unset = (form: HTMLFormElement): void =>
    form.querySelectorAll<HTMLInputElement>('[name=level]').forEach((radio) => void (radio.checked = false));
  const number = { type: 'number', min: '0', disabled: !edit };
  return (
    <Form submit={t('captcha.policySave')} onSubmit={save} disabled={!edit} label={t('captcha.policy')}>
      <ul class="cards">
        {Object.entries(presets).map(([name, preset]) => (
          <li key={name} class="card">
            <div class="check">
              <input type="radio" id={'level-' + name} name="level" value={name} defaultChecked={name === level} disabled={!edit} onChange={(e) => fill(e.currentTarget.form!, preset)} />
              <label for={'level-' + name}>
                <strong>{t(`captcha.level.${name as LevelName}`)}</strong>
              </label>
              <p class="hint">
                {cost(preset.baseSeconds || (policy.isBaseDefault && policy.baseSeconds))} {t(`captcha.level.${name as LevelName}Hint`)}
              </p>
            </div>
          </li>
        ))}
      </ul>
      <p class="aside">{t('captcha.policyHint')}</p>
      <details class="card" open={!level}>
        <summary>{t('captcha.advanced')}</summary>
        <div class="columns">
          <div class="column" onInput={(e) => unset(e.currentTarget.closest('form')!)}>
            {(['base', 'max'] as const).map((kind) => (
              <Field
                {...number}
                key={kind}
                name={`${kind}Seconds`}
                step="any"
                max="60"
                label={t(`captcha.${kind}`)}
                hint={t(`captcha.${kind}Hint`, { hashes: exact(policy[`${kind}Hashes`]) })}
                value={String(now[`${kind}Seconds`])}
              />
            ))}
            <Field {...number} name="freeChallenges" max="1000" label={t('captcha.free')} hint={t('captcha.freeHint')} value={String(now.freeChallenges)} />
            <Select
              name="automation"
              label={t('captcha.automation')}
              hint={t('captcha.automationHint')}
              value={now.automation}
              options={automations.map((kind) => [kind, t(`captcha.automation.${kind}`)])}
              disabled={!edit}
            />
            <Check name="strict" label={t('captcha.strict')} hint={t('captcha.strictHint')} checked={now.strict} disabled={!edit} />
            <Select
              name="attackMode"
              label={t('captcha.attackMode')}
              value={now.attackMode}
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
          </div>
          <Section title={t('captcha.cost')}><Costs policy={policy} /></Section>
        </div>
      </details>
    </Form>
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
      <Table label={t('captcha.cost')} head={[t('captcha.costOf'), t('captcha.costBase'), t('captcha.costMax')]}>
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
