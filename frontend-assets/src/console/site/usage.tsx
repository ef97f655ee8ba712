// A site's usage of its quota, by month and by day.
import { useQuery } from '../core/data';
import { date, exact, utcDay } from '../core/format';
import { t } from '../core/language';
import { Empty, Missing } from '../core/states';
import { Section, share, Table } from '../core/ui';
import { usagePage } from '../operations';
import { monthName } from '../parts/month';
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
        const months = site.usageHistory;
        const most = Math.max(...months.map(({ used }) => used));
        const begun = months.findLastIndex((month) => month.used > 0) + 1;
        return (
          <>
            <Section title={t('quota.label')} hint={t('usage.plan', { plan: site.plan.replace(/_/g, ' ') })}>
              <Used used={usage.pageviews} {...usage} label={t('quota.label')} text={t('quota.unlimited', { n: usage.pageviews })} />
              <p class="hint">
                {usage.quota !== null && t('quota.limit')} {t('quota.resets', { date: date(usage.resetsAt) })}
              </p>
            </Section>
            {begun === 0 ? (
              <Empty>{t('usage.none')}</Empty>
            ) : (
              <>
                <Days days={site.usageByDay} />
                <Section title={t('usage.months')}>
                  <ol class="ranks">
                    {months.slice(0, begun).map(({ period, used }) => (
                      <li key={period} style={share(used, most)}>
                        <span>{monthName(period)}</span>
                        <span class="figure">{exact(used)}</span>
                      </li>
                    ))}
                  </ol>
                </Section>
              </>
            )}
          </>
        );
      }}
    </SettingsPage>
  );
}

/** Days draws the last days as columns, and lists them on demand. */
function Days({ days }: { days: { day: string; used: number }[] }) {
  const course = days.toReversed();
  const most = Math.max(...days.map(({ used }) => used), 1);
  const name = t('usage.days');
  return (
    <Section title={name} hint={t('usage.hint')}>
      <div>
        <svg class="course" viewBox={`0 0 ${course.length} ${most}`} preserveAspectRatio="none" role="img" aria-label={name}>
          {course.map(({ day, used }, i) => (
            <rect key={day} x={i + 0.1} y={most - used} width="0.8" height={used}>
              <title>{`${utcDay(day)}: ${exact(used)}`}</title>
            </rect>
          ))}
        </svg>
        <p class="ends hint">
          <span>{utcDay(course[0]!.day)}</span> <span>{utcDay(days[0]!.day)}</span>
        </p>
      </div>
      <details>
        <summary>{t('chart.asTable')}</summary>
        <Table label={name} head={[t('usage.day'), t('usage.used')]}>
          {days.map(({ day, used }) => (
            <tr key={day}>
              <th scope="row">{utcDay(day)}</th>
              <td class="number">{exact(used)}</td>
            </tr>
          ))}
        </Table>
      </details>
    </Section>
  );
}
