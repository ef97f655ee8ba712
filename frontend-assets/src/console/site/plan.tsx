// What a site has used of its plan.
import { date } from '../core/format';
import { t } from '../core/language';
import type { UsageFields } from '../operations';
import { Used } from '../parts/used';

/** PlanUsage shows the month's page views and events, and what happens at the limit, if there is one. */
export function PlanUsage({ usage }: { usage: UsageFields }) {
  return (
    <>
      <Used
        used={usage.pageviews}
        {...usage}
        label={t('quota.label')}
        text={t('quota.unlimited', { n: usage.pageviews })}
      />
      <p class="hint">
        {usage.quota !== null && t('quota.limit')} {t('quota.resets', { date: date(usage.resetsAt) })}
      </p>
    </>
  );
}
