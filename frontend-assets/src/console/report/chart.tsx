// The chart of a report: one figure over time, with the period compared with.
import type { ComponentChildren, ComponentType } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { signed } from '../core/format';
import { t } from '../core/language';
import { metricText, metricValue } from '../core/metrics';
import { Loading } from '../core/states';
import { addressOf, type Metric, type View } from '../core/view';
import type { ReportFields } from '../operations';
import { MenuButton, type Opens } from './menubutton';
import { days } from './names';
import { intervalName, type Note, type Place, rounded, type Series, seriesOf } from './series';

/** Chart shows a figure of a report over time, as a drawing or as a table, which AsTable is once it is loaded. */
export function Chart(props: {
  id: string;
  report: ReportFields;
  view: View;
  interval: string;
  notes: Note[];
  /** Loads the module timeline. */
  need(): void;
  timeline: typeof import('../timeline') | undefined;
  opens: Opens;
  open(name: Opens): void;
  reload(): Promise<void>;
  AsTable: ComponentType<{ series: Series; metric: Metric }> | undefined;
  children: ComponentChildren;
}) {
  const { id, report, view, need, timeline, opens, open, AsTable } = props;
  const { metric, table } = view;
  const exact = seriesOf(report, metric, props.notes, props.interval);
  const series = (view.smooth && timeline?.smoothed(exact)) || exact;
  const title = t('chart.of', { metric: metricText(metric) });
  return (
    <section class="card chart" aria-label={t('chart.title')} onPointerEnter={need} onFocusIn={need}>
      <h2 class="sr">{title}</h2>
      <div class="legend">
        <span>{[days(report), series.average].filter(Boolean).join(' · ')}</span>
        {report.comparedFrom && <span>{days({ from: report.comparedFrom, to: report.comparedTo! })}</span>}
        <MenuButton name="interval" value={series.interval} label={t('chart.interval')} text={intervalName(series.interval)} {...{ opens, open }}>
          {timeline && <timeline.IntervalMenu {...{ report, view, series, open }} />}
        </MenuButton>
      </div>
      {!table ? (
        <Drawing series={series} metric={metric} title={title} need={need}>
          {(place) => timeline && <timeline.Tip {...{ id, report, series, metric, place }} reload={props.reload} />}
        </Drawing>
      ) : AsTable ? (
        <AsTable series={series} metric={metric} />
      ) : <Loading />}
      {props.children}
      <p class="toggle hint">
        <span>{t('report.zone', { zone: report.timeZone })}</span>
        <a href={addressOf(view, { table: !table })}>{t(table ? 'chart.asChart' : 'chart.asTable')}</a>
      </p>
    </section>
  );
}

const height = 248;
const edge = { top: 24, right: 10, bottom: 26 };

/** enlarged returns a width of texts, in pixels, at the size of text that the user has chosen. */
const enlarged = (width: number): number =>
  (width * parseFloat(getComputedStyle(document.documentElement).fontSize)) / 16;

/** isPress reports whether a key pins a point. */
const isPress = (key: string): boolean => /^(Enter| )$/.test(key);

/**
 * Drawing is the chart as SVG. It is a slider for the keyboard: arrows choose the point with the shown figures, and
 * Enter or a click pins it. Children are what is shown at that point.
 */
function Drawing(props: {
  series: Series;
  metric: Metric;
  title: string;
  need(): void;
  children(place: Place): ComponentChildren;
}) {
  const { series, metric, title } = props;
  const { points, axis } = series;
  const of = points[0]?.start + series.interval;
  const [chosen, show] = useState<{ of: string; at?: number; y?: number; pinned?: boolean; byKey?: boolean }>();
  const shown = chosen?.of === of ? chosen : undefined; // another period has other points
  const [held, hold] = useState(false);
  const box = useRef<HTMLDivElement>(null);
  const width = useWidth(box);
  const left = enlarged(48);

  const last = points.length - 1;
  const end = Math.max(axis.length - 1, 1);
  const at = Math.min(shown?.at ?? last, last);
  const values = points.flatMap((point) => [series.drawn(point) ?? 0, series.drawnCompared(point) ?? 0]);
  const { top, step } = scale(Math.max(...values, 0));
  const x = (i: number): number => left + ((width - left - edge.right) * i) / end;
  const y = (value: number): number => height - edge.bottom - ((height - edge.top - edge.bottom) * value) / top;
  const flags = points.map((_, i) => series.notes(i).length > 0);

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
      Enter: at,
      ' ': at,
    };
    const { key } = event;
    const to = moves[key];
    const closes = key === 'Escape' && shown;
    // Letters after Enter are for the form that opens, also while its module is loaded.
    if (shown?.byKey && !key[1]) event.stopPropagation();
    if ((to === undefined && !closes) || event.metaKey || event.ctrlKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation(); // Escape would remove the filters
    const pinned = isPress(key);
    if (pinned) hold(true);
    show(closes ? undefined : { of, at: Math.max(0, Math.min(last, to!)), pinned, byKey: pinned });
  };
  const onPointer = (event: MouseEvent): void => {
    const pinned = event.type === 'click';
    if (shown?.pinned && !pinned) return;

    const place = box.current!.getBoundingClientRect();
    const within = event.clientX - place.left;
    const above = event.clientY - place.top;
    let i = Math.round(((within - left) / Math.max(width - left - edge.right, 1)) * end);
    // At the upper edge the pointer chooses a flag, because points may be less than a pixel apart.
    const flag = flags.findIndex((has, i) => has && above < edge.top && Math.abs(x(i) - within) < 12);
    if (flag >= 0) i = flag;
    show({ of, at: Math.max(0, Math.min(last, i)), y: above, pinned });
  };

  const point = points[at];
  if (!point) return null;
  const drawn = series.drawn(point);
  return (
    <div
      class="drawing"
      onKeyUp={(e) => isPress(e.key) && hold(false)}
      onFocusOut={(e) => {
        // To another element: not while a dialog closes or the window is left.
        if (e.relatedTarget instanceof Node && !e.currentTarget.contains(e.relatedTarget)) show(undefined);
      }}
    >
      <div
        ref={box}
        class="plot"
        role="slider"
        tabIndex={0}
        aria-label={title}
        aria-valuemin={1}
        aria-valuemax={points.length}
        aria-valuenow={at + 1}
        aria-valuetext={described(series, metric, at).join('. ')}
        onFocus={(e) => e.currentTarget.matches(':focus-visible') && show({ of, at })}
        onKeyDown={onKeyDown}
        onPointerMove={onPointer}
        onPointerDown={(e) => {
          props.need(); // a finger does not enter before
          onPointer(e);
        }}
        onClick={onPointer}
        onPointerLeave={(e) => e.pointerType === 'mouse' && !shown?.pinned && show(undefined)}
      >
        <svg width={width} height={height} viewBox={`0 0 ${width} ${height}`} aria-hidden="true">
          <Axes series={series} metric={metric} x={x} y={y} top={top} step={step} width={width} />
          <Lines series={series} x={x} y={y} />
          {flags.map(
            (has, i) =>
              has && (
                <path key={i} class={shown && i === at ? 'flag on' : 'flag'} d={`M${x(i)} ${height - edge.bottom}V2l9 4-9 4`} />
              ),
          )}
          {shown && <line class="cursor" x1={x(at)} x2={x(at)} y1={edge.top} y2={height - edge.bottom} />}
          {drawn !== null && (shown || !point.partial) && <circle class="dot" cx={x(at)} cy={y(drawn)} r={4.5} />}
        </svg>
      </div>
      {shown &&
        props.children({
          at,
          x: x(at),
          y: shown.y ?? y(drawn ?? 0),
          pinned: !!shown.pinned,
          byKey: !!shown.byKey,
          held,
          close: () => show(undefined),
        })}
    </div>
  );
}

/** described writes the figures of a point, each as a sentence for the reader who hears them. */
function described(series: Series, metric: Metric, at: number): string[] {
  const point = series.points[at]!;
  const value = series.value(point);
  const before = series.compared(point);
  return [
    `${series.long(point.start)}${point.partial ? ` (${t('chart.partial')})` : ''}: ${metricValue(metric, value)}`,
    series.average && `${series.average}: ${metricValue(metric, rounded(series.drawn(point)))}`,
    point.comparedStart && `${series.long(point.comparedStart)}: ${metricValue(metric, before)}`,
    value !== null && before ? signed((value - before) / before) : '',
    ...series.notes(at).map((note) => note.text),
  ].filter((text): text is string => !!text);
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

interface Scales {
  series: Series;
  x(i: number): number;
  y(value: number): number;
}

/** Axes draws the lines and texts of both axes. */
function Axes(props: Scales & { metric: Metric; top: number; step: number; width: number }) {
  const { series, x, y, top, step } = props;
  const lines = Array.from({ length: step ? Math.round(top / step) + 1 : 1 }, (_, i) => i * step);
  const room = Math.max(1, Math.floor((props.width - x(0)) / enlarged(84)));
  const rough = Math.ceil(series.axis.length / room);
  // Of the hours of many days, midnight has the text.
  const every = series.interval === 'HOUR' && series.axis.length > 50 ? Math.ceil(rough / 24) * 24 : rough;
  const last = series.axis.length - 1;
  const anchor = (i: number): 'start' | 'middle' | 'end' => (i === 0 ? 'start' : i === last ? 'end' : 'middle');
  return (
    <>
      {lines.map((value) => (
        <g key={value}>
          <line class="grid" x1={x(0)} x2={props.width - edge.right} y1={y(value)} y2={y(value)} />
          <text x={x(0) - 8} y={y(value) + 4} text-anchor="end">{metricValue(props.metric, value, true)}</text>
        </g>
      ))}
      {series.axis.map(
        (point, i) =>
          (last - i) % every === 0 && (
            <text key={point.start} x={x(i)} y={height - 6} text-anchor={anchor(i)}>{series.brief(point.start)}</text>
          ),
      )}
    </>
  );
}

/** Lines draws the figure, its area, and the period compared with. The line ends before a part that is not over, which is a hollow dot. */
function Lines({ series, x, y }: Scales) {
  const { points } = series;
  const open = points.findIndex((point) => point.partial);
  const finished = open < 0 ? points.length : open;

  const path = (from: number, to: number, value: (point: Series['points'][number]) => number | null): string => {
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
    const line = path(from, to, series.drawn);
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
      <linearGradient id="fade" x2="0" y2="1">
        <stop />
        <stop offset="1" />
      </linearGradient>
      {own > 0 && part(0, own, ' imported')}
      {series.hasComparison && <path class="compared" d={path(0, points.length, series.drawnCompared)} />}
      {part(own - 1, finished, '')}
      {open >= 0 && (
        <>
          <circle class="dot open" cx={x(open)} cy={y(series.drawn(points[open]!) ?? 0)} r={4.5} />
          <text x={x(open)} y={y(series.drawn(points[open]!) ?? 0) - 10} text-anchor={open + 1 < series.axis.length ? 'start' : 'end'}>
            {t('chart.partial')}
          </text>
        </>
      )}
    </>
  );
}
