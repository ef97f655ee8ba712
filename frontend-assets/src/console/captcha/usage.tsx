// The use of an account's captcha quota.
import { date, exact } from '../core/format';
import { t } from '../core/language';
import { Section } from '../core/ui';
import type { CaptchaUsageFields } from '../operations';
import { Used } from '../parts/used';

/** CaptchaUsage shows the quota, the reserve once it is used, and what happens next. */
export function CaptchaUsage({ plan, usage }: { plan: string; usage: CaptchaUsageFields }) {
  return (
    <Section
      title={t('captcha.usage')}
      hint={t('captcha.usageHint', { plan: plan.replace(/_/g, ' '), date: date(usage.resetsAt) })}
    >
      <Used
        used={usage.verifications}
        {...usage}
        label={t('captcha.usage')}
        text={t('captcha.unlimited', { n: usage.verifications })}
      />
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
