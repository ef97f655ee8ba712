// A site's usage of its quota, by month and by day.
import { useQuery } from '../core/data';
import { date, exact, utcDay } from '../core/format';
import { t } from '../core/language';
import { Empty, Missing } from '../core/states';
import { Section, Table } from '../core/ui';
import { usagePage } from '../operations';
import { monthName } from '../parts/month';
import { SettingsPage } from '../parts/settings';
import { Used } from '../parts/used';

/** Usage shows the current month's quota, then the months and days with bars in proportion. */
export function Usage({ id }: { id: string }) {
  const query = useQuery(usagePage, { id });
  return (
    <SettingsPage id={id} query={query} title={t('usage.title')}>
      {({ site }) => {
        if (!site) return <Missing />;
        const { usage } = site;
        const months = site.usageHistory.map(({ period, used }) => ({ key: period, text: monthName(period), used }));
        const days = site.usageByDay.map(({ day, used }) => ({ key: day, text: utcDay(day), used }));
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
              <div class="columns">
                <Bars title={t('usage.months')} head={t('usage.month')} rows={months.slice(0, begun)} />
                <Bars title={t('usage.days')} head={t('usage.day')} rows={days} />
              </div>
            )}
          </>
        );
      }}
    </SettingsPage>
  );
}

function Bars(props: { title: string; head: string; rows: { key: string; text: string; used: number }[] }) {
  const most = Math.max(...props.rows.map((row) => row.used), 1);
  return (
    <Section title={props.title} hint={t('usage.hint')}>
      <div class="bars">
        <Table label={props.title} head={[props.head, t('usage.used')]}>
          {props.rows.map((row) => (
            <tr key={row.key}>
              <th scope="row">{row.text}</th>
              <td class="number">
                <span>{exact(row.used)}</span> <progress max={most} value={row.used} aria-label={row.text} />
              </td>
            </tr>
          ))}
        </Table>
      </div>
    </Section>
  );
}
