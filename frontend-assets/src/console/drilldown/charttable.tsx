// The chart of a report as a table.
import { t } from '../core/language';
import { Change, metricText, metricValue } from '../core/metrics';
import { Table } from '../core/ui';
import type { Metric } from '../core/view';
import type { Series } from '../report/series';

/** AsTable shows the points of a chart as rows. */
export function AsTable({ series, metric }: { series: Series; metric: Metric }) {
  const head = [t('chart.time'), metricText(metric)];
  if (series.hasComparison) head.push(t('chart.before'), t('chart.change'));
  return (
    <Table label={metricText(metric)} head={head}>
      {series.points.map((point) => {
        const value = series.value(point);
        const before = series.compared(point);
        return (
          <tr key={point.start}>
            <th scope="row">
              {series.long(point.start)}
              {point.partial && ` (${t('chart.partial')})`}
            </th>
            <td class="number">{metricValue(metric, value)}</td>
            {series.hasComparison && <td class="number">{metricValue(metric, before)}</td>}
            {series.hasComparison && <td class="number"><Change metric={metric} now={value} before={before} /></td>}
          </tr>
        );
      })}
    </Table>
  );
}
