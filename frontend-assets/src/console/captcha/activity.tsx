// What happened with a sitekey in the last days and months.
import { exact, utcDay } from '../core/format';
import { t, translated } from '../core/language';
import { Empty } from '../core/states';
import { Section, Table } from '../core/ui';
import { Days, Months } from '../parts/days';
import { milliseconds } from '../parts/format';
import type { Sitekey } from './fields';

/** counts are what is counted each day. */
const counts = ['challenges', 'automated', 'solved', 'renewed', 'verified', 'unredeemed'] as const;

const sum = (list: number[]): number => list.reduce((all, n) => all + n, 0);

/** Activity shows figures, a chart, refused calls with what to do about them, and months. */
export function Activity({ sitekey }: { sitekey: Sitekey }) {
  const days = sitekey.activity;
  if (days.length === 0) return <Empty>{t('captcha.noActivity')}</Empty>;

  const refusals = new Map<string, Sitekey['activity'][number]['refusals'][number]>();
  for (const r of days.flatMap((day) => day.refusals)) {
    const key = r.endpoint + ' ' + r.code;
    refusals.set(key, { ...r, count: r.count + (refusals.get(key)?.count ?? 0) });
  }
  const sorted = [...refusals].sort(([, a], [, b]) => Number(a.expected) - Number(b.expected) || b.count - a.count);
  const work = days.flatMap(({ medianWorkMs }) => medianWorkMs ?? []).sort((a, b) => a - b);
  const middle = work[work.length >> 1];
  const figures = [
    [t('captcha.verified'), exact(sum(days.map(({ verified }) => verified)))],
    [t('captcha.solved'), exact(sum(days.map(({ solved }) => solved)))],
    [t('captcha.refused'), exact(sum(sorted.map(([, { count }]) => count)))],
    [t('captcha.work'), middle === undefined ? '–' : milliseconds(middle)],
  ];
  return (
    <>
      <section class="card">
        <dl class="facts even net">
          {figures.map(([name, value]) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd>
                <strong>{value}</strong>
              </dd>
            </div>
          ))}
        </dl>
      </section>
      <Days title={t('captcha.activity')} hint={t('captcha.activityHint')} days={days.map(({ day, verified, challenges }) => ({ day, used: verified, line: challenges }))}>
        <Table label={t('captcha.activity')} head={[t('captcha.day'), ...counts.map((name) => t(`captcha.${name}`)), t('captcha.work'), t('captcha.refused')]}>
          {days.map((day) => (
            <tr key={day.day}>
              <th scope="row">{utcDay(day.day)}</th>
              {counts.map((name) => (
                <td key={name} class="number">{exact(day[name])}</td>
              ))}
              <td class="number">{day.medianWorkMs === null ? '–' : milliseconds(day.medianWorkMs)}</td>
              <td class="number">{exact(sum(day.refusals.map((r) => r.count)))}</td>
            </tr>
          ))}
        </Table>
      </Days>
      {sorted.length > 0 && (
        <Section title={t('captcha.refusals')}>
          <ul class="plain">
            {sorted.map(([key, r]) => (
              <li key={key}>
                <strong>{t('rejections.calls', { n: r.count })}</strong> <code>{key}</code>
                {r.expected && <span class="hint"> {t('captcha.expected')}</span>}
                <p class="hint">{translated('advice', 'captcha.' + r.code, r.advice)}</p>
              </li>
            ))}
          </ul>
        </Section>
      )}
      {sitekey.usageHistory.some(({ used }) => used > 0) && <Months title={t('captcha.months')} months={sitekey.usageHistory} />}
    </>
  );
}
