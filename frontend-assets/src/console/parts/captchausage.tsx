// The use of an account's captcha quota.
import { date, exact } from '../core/format';
import { t } from '../core/language';
import { Quota, Section } from '../core/ui';
import type { CaptchaUsageFields } from '../operations';

/** CaptchaUsage shows the quota, the reserve once it is used, and what happens next. */
export function CaptchaUsage({ plan, usage }: { plan: string; usage: CaptchaUsageFields }) {
  return (
    <Section
      title={t('captcha.usage')}
      hint={t('captcha.usageHint', { plan: plan.replace(/_/g, ' '), date: date(usage.resetsAt) })}
    >
      {usage.quota !== null && usage.percent !== null ? (
        <Quota used={usage.verifications} quota={usage.quota} share={usage.percent} label={t('captcha.usage')} />
      ) : (
        <p>{t('captcha.unlimited', { n: usage.verifications })}</p>
      )}
      {usage.standing === 'IN_RESERVE' && (
        <p class="notice">
          {t('captcha.inReserve', {
            reserve: exact(usage.reserve ?? 0),
            date: usage.reserveEndsAt ? date(usage.reserveEndsAt) : '',
          })}
        </p>
      )}
      {usage.standing === 'EXHAUSTED' && (
        <p class="notice bad">{t('captcha.exhausted', { date: date(usage.resetsAt) })}</p>
      )}
    </Section>
  );
}
