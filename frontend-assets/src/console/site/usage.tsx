// A site's usage of its quota, by month and by day.
import { useQuery } from '../core/data';
import { date, exact, utcDay } from '../core/format';
import { t } from '../core/language';
import { Empty, Missing } from '../core/states';
import { Section, Table } from '../core/ui';
import { usagePage } from '../operations';
import { Days, Months } from '../parts/days';
import { SettingsPage } from '../parts/settings';
import { Used } from '../parts/used';

/** Usage shows the current month's quota, then the days as a chart and the months with bars in proportion. */
export function Usage({ id }: { id: string }) {
  const query = useQuery(usagePage, { id });
  return (
    <SettingsPage id={id} query={query} title={t('usage.title')}>
      {({ site }) => {
        if (!site) return <Missing />;
        const { usage } = site;
        const isEmpty = site.usageHistory.every(({ used }) => used === 0);
        return (
          <>
            <Section title={t('quota.label')} hint={t('usage.plan', { plan: site.plan.replace(/_/g, ' ') })}>
              <Used used={usage.pageviews} {...usage} label={t('quota.label')} text={t('quota.unlimited', { n: usage.pageviews })} />
              <p class="hint">{usage.quota !== null && t('quota.limit')} {t('quota.resets', { date: date(usage.resetsAt) })}</p>
            </Section>
            {isEmpty ? (
              <Empty>{t('usage.none')}</Empty>
            ) : (
              <>
                <Days title={t('usage.days')} hint={t('usage.hint')} days={site.usageByDay}>
                  <Table label={t('usage.days')} head={[t('usage.day'), t('usage.used')]}>
                    {site.usageByDay.map(({ day, used }) => (
                      <tr key={day}>
                        <th scope="row">{utcDay(day)}</th>
                        <td class="number">{exact(used)}</td>
                      </tr>
                    ))}
                  </Table>
                </Days>
                <Months title={t('usage.months')} months={site.usageHistory} />
              </>
            )}
          </>
        );
      }}
    </SettingsPage>
  );
}
