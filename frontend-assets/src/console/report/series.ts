// The data of a report's chart: the points of one figure, with their texts.
import { locale, t } from '../core/language';
import type { Metric } from '../core/view';
import type { MetricFields, ReportFields, ReportInterval as Interval } from '../operations';

/** Note is an annotation of a day, YYYY-MM-DD. */
export interface Note {
  id: string;
  day: string;
  text: string;
}

type Point = ReportFields['series'][number];

/** defaultInterval repeats the server's rule for the length of a point. One or two days that were imported have no hours. */
function defaultInterval({ from, to, series }: ReportFields): Interval {
  const days = (Date.parse(to) - Date.parse(from)) / 86_400_000 + 1;
  return days <= 2 && series.length > days ? 'HOUR' : days <= 92 ? 'DAY' : days <= 366 ? 'WEEK' : 'MONTH';
}

const formats: Record<Interval, [brief: Intl.DateTimeFormatOptions, long: Intl.DateTimeFormatOptions]> = {
  HOUR: [{ hour: 'numeric' }, { weekday: 'short', day: 'numeric', month: 'short', hour: 'numeric', minute: '2-digit' }],
  DAY: [{ day: 'numeric', month: 'short' }, { weekday: 'long', day: 'numeric', month: 'long', year: 'numeric' }],
  WEEK: [{ day: 'numeric', month: 'short' }, { day: 'numeric', month: 'long', year: 'numeric' }],
  MONTH: [{ month: 'short', year: '2-digit' }, { month: 'long', year: 'numeric' }],
};

/** Series is the data of the chart and its table: the parts that have begun, with their texts. */
export interface Series {
  points: Point[];
  /** All parts of the axis: of hours the whole day, also while it is not over. */
  axis: Point[];
  /** The number of the first points that have imported days. */
  imported: number;
  interval: Interval;
  /** The day of a point, YYYY-MM-DD. */
  day(point: Point | undefined): string;
  value(point: Point): number | null;
  compared(point: Point): number | null;
  /** What the lines show: the value, or an average, whose name average has. */
  drawn(point: Point): number | null;
  drawnCompared(point: Point): number | null;
  average: string;
  brief(time: string): string;
  long(time: string): string;
  /** The notes of a point's days. Of a day's hours, the first one has the note. */
  notes(at: number): Note[];
  hasComparison: boolean;
}

/** seriesOf prepares a report's series. Hours of today that have not begun are left out. */
export function seriesOf(report: ReportFields, metric: Metric, notes: Note[], chosen: string): Series {
  const zone = { timeZone: report.timeZone };
  const interval = (chosen.toUpperCase() as Interval) || defaultInterval(report);
  // A day of 23 or 25 hours lacks an hour or has one twice.
  const isLong = interval === 'HOUR' && report.series.length > 50;
  const changed = interval === 'HOUR' && report.series.length % 24 > 0 && ({ timeZoneName: 'short' } as const);
  const [brief, long] = formats[interval].map(
    (f, i) => new Intl.DateTimeFormat(locale(), { ...(i || !isLong ? f : formats.DAY[0]), ...zone, ...(i && changed) }),
  );
  const dayOf = new Intl.DateTimeFormat('en-CA', { year: 'numeric', month: '2-digit', day: '2-digit', ...zone });
  const points = report.series.filter((point) => Date.parse(point.start) <= Date.parse(report.asOf));
  const last = report.imports.at(-1)?.to ?? '';
  const hasHours = report.seriesImported !== 'WHOLE_DAYS';

  // Some services count page views without visitors: the chart has a gap there.
  const known = (metrics: MetricFields): number | null =>
    /^visit/.test(metric) && metrics.pageviews && !metrics.visitors ? null : metrics[metric];

  const value = (point: Point): number | null => known(point.metrics);
  const compared = ({ metrics: { comparison } }: Point): number | null =>
    comparison && hasHours ? known(comparison) : null;
  const dayNames = new Map(points.map(({ start }) => [start, dayOf.format(new Date(start))]));
  const day = (point: Point | undefined): string => (point ? dayNames.get(point.start)! : '');

  return {
    points,
    interval,
    day,
    value,
    compared,
    drawn: value,
    drawnCompared: compared,
    average: '',
    axis: interval === 'HOUR' ? report.series : points,
    imported: points.filter((point) => day(point) <= last).length,
    brief: (time) => brief!.format(new Date(time)),
    long: (time) => {
      const text = long!.format(new Date(time));
      return interval === 'WEEK' ? t('chart.week', { day: text }) : text;
    },
    notes: (at) => {
      const first = day(points[at]);
      if (interval === 'HOUR' && first === day(points[at - 1])) return [];
      const last = /HOUR|DAY/.test(interval) ? first : day(points[at + 1]) || '9999';
      return notes.filter((n) => n.day === first || (n.day > first && n.day < last));
    },
    hasComparison: points.some((point) => point.comparedStart),
  };
}

/** Place is the point whose figures are shown, in pixels from the left upper corner of the drawing. */
export interface Place {
  at: number;
  x: number;
  y: number;
  /** Whether it stays until it is closed, with its buttons. */
  pinned: boolean;
  /** Whether the keyboard has pinned it, and the key is still held. */
  byKey: boolean;
  held: boolean;
  close(): void;
}

/** intervalName writes the length of a point: "Day". */
export const intervalName = (interval: Interval): string =>
  new Intl.DisplayNames(locale(), { type: 'dateTimeField' }).of(interval === 'WEEK' ? 'weekOfYear' : interval.toLowerCase())!;

/** rounded leaves a decimal of an average. */
export const rounded = (value: number | null): number | null => value && Math.round(value * 10) / 10;
