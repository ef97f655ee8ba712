// Counts of days as a chart, and of months as bars.
import type { ComponentChildren } from 'preact';
import { exact, utcDay } from '../core/format';
import { t } from '../core/language';
import { Section, share } from '../core/ui';
import { monthName } from './month';

/** Days draws counts of days, the newest first, as columns with a second count as a line. A table lists them on demand. */
export function Days(props: {
  title: string;
  hint: string;
  days: { day: string; used: number; line?: number }[];
  children: ComponentChildren;
}) {
  const { days } = props;
  const known = new Map(days.map((day) => [day.day, day]));
  const first = Date.parse(days.at(-1)!.day);
  const course = Array.from({ length: (Date.parse(days[0]!.day) - first) / 86_400_000 + 1 }, (_, i) => {
    const day = new Date(first + i * 86_400_000).toISOString().slice(0, 10);
    return known.get(day) ?? { day, used: 0, line: 0 };
  });
  const most = Math.max(...course.map(({ used, line = 0 }) => Math.max(used, line)), 1);
  const lines = days[0]!.line === undefined ? [] : course.map(({ line = 0 }, i) => `${i + 0.5},${most - line}`);
  return (
    <Section title={props.title} hint={props.hint}>
      <div>
        <svg class="course spark" viewBox={`0 0 ${course.length} ${most}`} preserveAspectRatio="none" role="img" aria-label={props.title}>
          {course.map(({ day, used }, i) => (
            <rect key={day} x={i + 0.1} y={most - used} width="0.8" height={used}>
              <title>{`${utcDay(day)}: ${exact(used)}`}</title>
            </rect>
          ))}
          <polyline points={lines.join(' ')} vector-effect="non-scaling-stroke" />
        </svg>
        <p class="ends hint">
          <span>{utcDay(course[0]!.day)}</span> <span>{utcDay(course.at(-1)!.day)}</span>
        </p>
      </div>
      <details>
        <summary>{t('chart.asTable')}</summary>
        {props.children}
      </details>
    </Section>
  );
}

/** Months has a bar for each month since the first one with a count, the newest first. */
export function Months({ title, months }: { title: string; months: { period: string; used: number }[] }) {
  const begun = months.slice(0, months.findLastIndex(({ used }) => used > 0) + 1);
  const most = Math.max(...begun.map(({ used }) => used));
  return (
    <Section title={title}>
      <ol class="ranks">
        {begun.map(({ period, used }) => (
          <li key={period} style={share(used, most)}>
            <span>{monthName(period)}</span>
            <span class="figure">{exact(used)}</span>
          </li>
        ))}
      </ol>
    </Section>
  );
}
