// Moving averages. They are made of the points that the chart has, so no other request is necessary.
import { t } from '../core/language';
import type { Series } from '../report/series';

/** widths are the points of an average: a week of days, and what is similar for other intervals. */
const widths: Record<Series['interval'], number> = { HOUR: 3, DAY: 7, WEEK: 4, MONTH: 3 };

/** widthOf returns the points of a series' average. The hours of several days are averaged over a day. */
export const widthOf = ({ interval, axis }: Series): number =>
  interval === 'HOUR' && axis.length > 50 ? 24 : widths[interval];

/** averageText names an average: "average of 7 days". */
export function averageText(series: Series): string {
  const unit = series.interval.toLowerCase() as 'hour' | 'day' | 'week' | 'month';
  return t(`average.${unit}`, { n: widthOf(series) });
}

/**
 * smoothed returns a series that draws the average of each point and the points before it. The first averages are of
 * fewer points. A part that is not over has none, because it would pull the line down.
 */
export function smoothed(series: Series): Series {
  const { points } = series;
  const width = widthOf(series);
  const average = (value: Series['value']): Series['value'] => {
    const averages = points.map((point, i) => {
      const values = points.slice(Math.max(0, i - width + 1), i + 1).flatMap((p) => value(p) ?? []);
      return point.partial || values.length === 0 ? null : values.reduce((sum, n) => sum + n, 0) / values.length;
    });
    const byStart = new Map(points.map(({ start }, i) => [start, averages[i]!]));
    return ({ start }) => byStart.get(start) ?? null;
  };
  return {
    ...series,
    drawn: average(series.value),
    drawnCompared: average(series.compared),
    average: averageText(series),
  };
}
