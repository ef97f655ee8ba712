// The chart of a report: one figure over time, with the period compared with.
import type { ComponentChildren, ComponentType } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { locale, t } from '../core/language';
import { metricText, metricValue } from '../core/metrics';
import { Loading } from '../core/states';
import type { Metric } from '../core/view';
import type { MetricFields, ReportFields } from '../operations';

/** Note is an annotation of a day, YYYY-MM-DD. */
export interface Note {
  day: string;
  text: string;
}

type Point = ReportFields['series'][number];

/**
 * Interval is the length of a series' parts; the server's rule for a period's default is repeated here. One or two
 * days that were imported have no hours.
 */
type Interval = 'HOUR' | 'DAY' | 'WEEK' | 'MONTH';

function intervalOf({ from, to, series }: ReportFields): Interval {
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
  value(point: Point): number | null;
  compared(point: Point): number | null;
  brief(time: string): string;
  long(time: string): string;
  notes(point: Point, next: Point | undefined): string[];
  hasComparison: boolean;
}

/** seriesOf prepares a report's series. Hours of today that have not begun are left out. */
function seriesOf(report: ReportFields, metric: Metric, notes: Note[]): Series {
  const zone = { timeZone: report.timeZone };
  const interval = intervalOf(report);
  // A day of 23 or 25 hours lacks an hour or has one twice.
  const changed = interval === 'HOUR' && report.series.length % 24 > 0 && ({ timeZoneName: 'short' } as const);
  const [brief, long] = formats[interval].map(
    (f, i) => new Intl.DateTimeFormat(locale(), { ...f, ...zone, ...(i && changed) }),
  );
  const dayOf = new Intl.DateTimeFormat('en-CA', { year: 'numeric', month: '2-digit', day: '2-digit', ...zone });
  const points = report.series.filter((point) => Date.parse(point.start) <= Date.parse(report.asOf));
  const last = report.imports.at(-1)?.to ?? '';
  const hasHours = report.seriesImported !== 'WHOLE_DAYS';

  // Some services count page views without visitors: the chart has a gap there.
  const known = (metrics: MetricFields): number | null =>
    /^visit/.test(metric) && metrics.pageviews && !metrics.visitors ? null : metrics[metric];

  return {
    points,
    axis: interval === 'HOUR' ? report.series : points,
    imported: points.filter(({ start }) => dayOf.format(new Date(start)) <= last).length,
    value: (point) => known(point.metrics),
    compared: ({ metrics: { comparison } }) => (comparison && hasHours ? known(comparison) : null),
    brief: (time) => brief!.format(new Date(time)),
    long: (time) => {
      const text = long!.format(new Date(time));
      return interval === 'WEEK' ? t('chart.week', { day: text }) : text;
    },
    notes: (point, next) => {
      if (interval === 'HOUR' && point !== points[0]) return [];
      const first = dayOf.format(new Date(point.start));
      const end = next && interval !== 'HOUR' ? dayOf.format(new Date(next.start)) : '9999';
      const last = interval === 'DAY' || interval === 'HOUR' ? first : end;
      return notes.filter((n) => n.day === first || (n.day > first && n.day < last)).map((n) => n.text);
    },
    hasComparison: points.some((point) => point.comparedStart),
  };
}

/** Chart shows a figure of a report over time, as a drawing or as a table, which AsTable is once it is loaded. */
export function Chart(props: {
  report: ReportFields;
  metric: Metric;
  notes: Note[];
  table: boolean;
  toggle: string;
  AsTable: ComponentType<{ series: Series; metric: Metric }> | undefined;
  children: ComponentChildren;
}) {
  const { report, metric, table, AsTable } = props;
  const series = seriesOf(report, metric, props.notes);
  const title = t('chart.of', { metric: metricText(metric) });
  return (
    <section class="card chart" aria-label={t('chart.title')}>
      <h2 class="sr">{title}</h2>
      {!table ? (
        <Drawing series={series} metric={metric} title={title} />
      ) : AsTable ? (
        <AsTable series={series} metric={metric} />
      ) : (
        <Loading />
      )}
      {props.children}
      <p class="toggle hint">
        <span>{t('report.days', { days: days(report), zone: report.timeZone })}</span>
        <a href={props.toggle}>{t(table ? 'chart.asChart' : 'chart.asTable')}</a>
      </p>
    </section>
  );
}

/** days writes the first and the last day of a report. */
export function days({ from, to }: ReportFields): string {
  const format = new Intl.DateTimeFormat(locale(), { dateStyle: 'medium', timeZone: 'UTC' });
  return format.formatRange(Date.parse(from), Date.parse(to));
}

const height = 248;
const edge = { top: 16, right: 10, bottom: 26 };

/** enlarged returns a width of texts, in pixels, at the size of text that the user has chosen. */
const enlarged = (width: number): number =>
  (width * parseFloat(getComputedStyle(document.documentElement).fontSize)) / 16;

/** Drawing is the chart as SVG. It is a slider for the keyboard: arrows choose the part with the shown figures. */
function Drawing({ series, metric, title }: { series: Series; metric: Metric; title: string }) {
  const { points, axis } = series;
  const [chosen, setChosen] = useState<number>();
  const box = useRef<HTMLDivElement>(null);
  const width = useWidth(box);
  const left = enlarged(48);

  const last = points.length - 1;
  const end = Math.max(axis.length - 1, 1);
  const at = Math.min(chosen ?? last, last);
  const values = points.flatMap((point) => [series.value(point) ?? 0, series.compared(point) ?? 0]);
  const { top, step } = scale(Math.max(...values, 0));
  const x = (i: number): number => left + ((width - left - edge.right) * i) / end;
  const y = (value: number): number => height - edge.bottom - ((height - edge.top - edge.bottom) * value) / top;

  const choose = (i: number): void => setChosen(Math.max(0, Math.min(last, i)));
  const onKeyDown = (event: KeyboardEvent): void => {
    const moves: Record<string, number> = {
      ArrowLeft: at - 1,
      ArrowDown: at - 1,
      ArrowRight: at + 1,
      ArrowUp: at + 1,
      PageUp: at + 7,
      PageDown: at - 7,
      Home: 0,
      End: last,
    };
    const to = moves[event.key];
    if (to === undefined || event.metaKey || event.ctrlKey || event.altKey) return;
    event.preventDefault();
    choose(to);
  };
  const onPointerMove = (event: PointerEvent): void => {
    const within = event.clientX - box.current!.getBoundingClientRect().left - left;
    choose(Math.round((within / Math.max(width - left - edge.right, 1)) * end));
  };

  const point = points[at];
  if (!point) return null;
  const value = metricValue(metric, series.value(point));
  const before = point.comparedStart ? metricValue(metric, series.compared(point)) : '';
  const notes = series.notes(point, points[at + 1]);
  const text = [
    `${series.long(point.start)}${point.partial ? ` (${t('chart.partial')})` : ''}: ${value}`,
    point.comparedStart && `${series.long(point.comparedStart)}: ${before}`,
    ...notes,
  ].filter(Boolean);

  return (
    <>
      <p class="readout">
        <span>
          {series.long(point.start)}
          {point.partial && ` (${t('chart.partial')})`}: <strong>{value}</strong>
        </span>
        {point.comparedStart && (
          <span class="hint">
            {series.long(point.comparedStart)}: {before}
          </span>
        )}
        {notes.map((note) => (
          <span key={note} class="note">
            {note}
          </span>
        ))}
      </p>
      <div
        ref={box}
        class="plot"
        role="slider"
        tabIndex={0}
        aria-label={title}
        aria-valuemin={1}
        aria-valuemax={points.length}
        aria-valuenow={at + 1}
        aria-valuetext={text.join('. ')}
        onKeyDown={onKeyDown}
        onPointerMove={onPointerMove}
        onPointerDown={onPointerMove}
        onPointerLeave={() => setChosen(undefined)}
      >
        <svg width={width} height={height} viewBox={`0 0 ${width} ${height}`} aria-hidden="true">
          <Axes series={series} metric={metric} x={x} y={y} top={top} step={step} width={width} />
          <Lines series={series} x={x} y={y} />
          <line class="cursor" x1={x(at)} x2={x(at)} y1={edge.top} y2={height - edge.bottom} />
          {series.value(point) !== null && <circle class="dot" cx={x(at)} cy={y(series.value(point)!)} r={4.5} />}
          {points.map(
            (p, i) =>
              series.notes(p, points[i + 1]).length > 0 && (
                <path key={p.start} class="flag" d={`M${x(i)} ${height - edge.bottom}v-10l8 4-8 4`} />
              ),
          )}
        </svg>
      </div>
    </>
  );
}

/** useWidth returns the width of an element, and follows it. */
function useWidth(box: { current: HTMLElement | null }): number {
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => setWidth(Math.floor(entry!.contentRect.width)));
    observer.observe(box.current!);
    return () => observer.disconnect();
  }, []);
  return width;
}

/** scale returns the top of an axis and the distance of its lines: 1, 2 or 5 times a power of ten, or 0 for no other line. */
export function scale(most: number): { top: number; step: number } {
  if (!most) return { top: 1, step: 0 };
  const rough = Math.max(most, 4) / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough)!;
  return { top: step * Math.max(Math.ceil(most / step), 1), step };
}

interface Place {
  series: Series;
  x(i: number): number;
  y(value: number): number;
}

/** Axes draws the lines and texts of both axes. */
function Axes(props: Place & { metric: Metric; top: number; step: number; width: number }) {
  const { series, x, y, top, step } = props;
  const lines = Array.from({ length: step ? Math.round(top / step) + 1 : 1 }, (_, i) => i * step);
  const room = Math.max(1, Math.floor((props.width - x(0)) / enlarged(84)));
  const every = Math.ceil(series.axis.length / room);
  const last = series.axis.length - 1;
  const anchor = (i: number): 'start' | 'middle' | 'end' => (i === 0 ? 'start' : i === last ? 'end' : 'middle');
  return (
    <>
      {lines.map((value) => (
        <g key={value}>
          <line class="grid" x1={x(0)} x2={props.width - edge.right} y1={y(value)} y2={y(value)} />
          <text x={x(0) - 8} y={y(value) + 4} text-anchor="end">
            {metricValue(props.metric, value, true)}
          </text>
        </g>
      ))}
      {series.axis.map(
        (point, i) =>
          i % every === 0 && (
            <text key={point.start} x={x(i)} y={height - 6} text-anchor={anchor(i)}>
              {series.brief(point.start)}
            </text>
          ),
      )}
    </>
  );
}

/** Lines draws the figure, its area, and the period compared with. The part that is not over is dashed. */
function Lines({ series, x, y }: Place) {
  const { points } = series;
  const open = points.findIndex((point) => point.partial);
  const finished = open < 0 ? points.length : open;

  const path = (from: number, to: number, value: (point: Point) => number | null): string => {
    let pen = 'M';
    let d = '';
    for (let i = Math.max(from, 0); i < to; i++) {
      const v = value(points[i]!);
      if (v === null) pen = 'M';
      else {
        d += `${pen}${x(i).toFixed(1)} ${y(v).toFixed(1)}`;
        pen = 'L';
      }
    }
    return d;
  };

  // The part that another service has counted ends where the own part begins.
  const own = series.imported;
  const part = (from: number, to: number, tint: string) => {
    const line = path(from, to, series.value);
    const simple = line.lastIndexOf('M') === 0 && line.includes('L');
    return (
      <>
        {simple && <path class={'area' + tint} d={`${line}V${y(0)}H${parseFloat(line.slice(1))}Z`} />}
        <path class={'line' + tint} d={line} />
      </>
    );
  };
  return (
    <>
      {own > 0 && part(0, own, ' imported')}
      {series.hasComparison && <path class="compared" d={path(0, points.length, series.compared)} />}
      {part(own - 1, finished, '')}
      {open >= 0 && <path class="line open" d={path(open - 1, points.length, series.value)} />}
    </>
  );
}
