// The menus of the period, the comparison, and the chart's interval.
import type { ComponentChildren } from 'preact';
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks';
import { t } from '../core/language';
import { go } from '../core/router';
import { addressOf, type Period, periods, type View } from '../core/view';
import type { ReportFields, ReportInterval } from '../operations';
import type { Choose, Opens } from '../report/menubutton';
import { compareName, periodText } from '../report/names';
import { intervalName, type Series } from '../report/series';
import { averageText } from './smoothed';

interface MenuProps {
  view: View;
  choose: Choose;
  open(name: Opens): void;
}

/** Item is an entry of a menu, with the letter that does the same on the page. */
interface Item {
  text: string;
  letter?: string | undefined;
  /** Whether it is the choice in use. Without it the entry opens a dialog. */
  checked?: boolean;
  role?: 'menuitemcheckbox';
  run(): void;
}

/** PeriodMenu chooses the period. */
export function PeriodMenu({ view, choose, open }: MenuProps) {
  const item = (period: Period): Item => ({
    text: periodText(period),
    letter: periods[period][1],
    checked: period === view.period,
    run: () => choose(() => ({ period, from: '', to: '' })),
  });
  const groups: Period[][] = [
    ['today', 'yesterday'],
    ['7d', '28d', '30d', '91d'],
    ['month', 'last-month', 'year', '12m'],
  ];
  const custom: Item = {
    text: t('period.custom'),
    letter: 'C',
    ...(view.from && { checked: true }),
    run: () => open('dates'),
  };
  return (
    <Menu label={t('period.label')} groups={[...groups.map((names) => names.map(item)), [item('all'), custom]]} open={open} />
  );
}

/** CompareMenu chooses the period to compare with. */
export function CompareMenu({ view, choose, open }: MenuProps) {
  const item = (compare: string, dates = false): Item => ({
    text: compareName({ ...view, compare, dates }),
    // The letter turns the comparison on and off.
    letter: compare === (view.compare ? '' : 'previous') && !dates ? 'X' : undefined,
    checked: compare === view.compare && (dates === view.dates || !compare),
    run: () => choose(() => ({ compare, dates })),
  });
  const custom: Item = {
    text: t('compare.custom'),
    ...(/^\d/.test(view.compare) && { checked: true }),
    run: () => open('compare'),
  };
  return (
    <Menu
      label={t('compare.label')}
      groups={[[item('')], [item('previous'), item('year')], [item('previous', true), item('year', true)], [custom]]}
      open={open}
    />
  );
}

/** IntervalMenu chooses the length of the chart's points, and their moving average. */
export function IntervalMenu(props: { report: ReportFields; view: View; series: Series; open(name: Opens): void }) {
  const { report, view, series } = props;
  const choose = (changes: Partial<View>): void => go(addressOf(view, changes));
  const items = fitting(report).map((interval) => ({
    text: intervalName(interval),
    checked: interval === series.interval,
    run: () => choose({ interval: interval.toLowerCase() }),
  }));
  const smooth: Item = {
    text: t('average.show', { average: averageText(series) }),
    role: 'menuitemcheckbox',
    checked: view.smooth,
    run: () => choose({ smooth: !view.smooth }),
  };
  return <Menu label={t('chart.interval')} groups={[items, [smooth]]} open={props.open} />;
}

/** fitting returns the intervals that divide a period into 2 to 400 points, which is the server's limit. */
function fitting({ from, to }: ReportFields): ReportInterval[] {
  const first = new Date(from);
  const last = new Date(to);
  const days = (+last - +first) / 86_400_000 + 1;
  const weekday = (first.getUTCDay() + 6) % 7;
  const months = (last.getUTCFullYear() - first.getUTCFullYear()) * 12 + last.getUTCMonth() - first.getUTCMonth() + 1;

  const points: Record<ReportInterval, number> = {
    HOUR: days * 24 + 1, // a day may have 25
    DAY: days,
    WEEK: Math.ceil((days + weekday) / 7),
    MONTH: months,
  };
  return (Object.keys(points) as ReportInterval[]).filter((name) => points[name] >= 2 && points[name] <= 400);
}

/**
 * Menu is an open menu below its button, which is the element before it. Arrows, Home and End move through it. A
 * letter finds the entry with this shortcut, and several letters the entry that begins with them.
 */
function Menu(props: { label: string; groups: Item[][]; open(name: Opens): void }) {
  const menu = useRef<HTMLDivElement>(null);
  const typed = useRef({ text: '', at: 0 });
  const items = props.groups.flat();

  const button = (): HTMLElement => menu.current!.previousElementSibling as HTMLElement;
  const entries = (): HTMLElement[] => [...menu.current!.querySelectorAll<HTMLElement>('button')];
  const focus = (i: number): void => entries()[(i + items.length) % items.length]!.focus();
  const close = (): void => {
    button().focus();
    props.open('');
  };
  const run = (item: Item): void => {
    close();
    item.run();
  };

  useLayoutEffect(() => focus(Math.max(items.findIndex((item) => item.checked), 0)), []);
  useEffect(() => {
    const leave = ({ target }: Event): void => {
      if (target instanceof Node && !menu.current!.parentNode!.contains(target)) props.open('');
    };
    addEventListener('pointerdown', leave);
    return () => removeEventListener('pointerdown', leave);
  }, []);

  const find = (key: string): void => {
    const now = Date.now();
    const { text, at } = typed.current;
    const wanted = (now - at < 1000 ? text : '') + key.toLowerCase();
    typed.current = { text: wanted, at: now };

    const byLetter = items.findIndex((item) => item.letter?.toLowerCase() === wanted);
    const found = byLetter >= 0 ? byLetter : items.findIndex((item) => item.text.toLowerCase().startsWith(wanted));
    if (found >= 0) focus(found);
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    const { key } = event;
    if (event.metaKey || event.ctrlKey || event.altKey) return;
    if (key === 'Tab') return props.open('');

    const at = entries().indexOf(document.activeElement as HTMLElement);
    const moves: Record<string, number> = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: items.length - 1 };
    event.stopPropagation(); // the page's own letters
    if (key === 'Escape') close();
    else if (key in moves) {
      typed.current.text = '';
      focus(moves[key]!);
    } else if (key.length === 1 && key !== ' ') find(key);
    else return;
    event.preventDefault();
  };

  return (
    <div ref={menu} class="options" role="menu" aria-label={props.label} onKeyDown={onKeyDown}>
      {props.groups.map((group, i) => (
        <>
          {i > 0 && <hr />}
          {group.map((item) => (
            <Entry key={item.text} item={item} run={run} />
          ))}
        </>
      ))}
    </div>
  );
}

function Entry({ item, run }: { item: Item; run(item: Item): void }): ComponentChildren {
  const isChoice = item.checked !== undefined;
  return (
    <button
      type="button"
      role={item.role ?? (isChoice ? 'menuitemradio' : 'menuitem')}
      aria-checked={isChoice ? item.checked : undefined}
      aria-keyshortcuts={item.letter}
      tabIndex={-1}
      onClick={() => run(item)}
    >
      <span>{item.text}</span>
      {item.letter && <kbd aria-hidden="true">{item.letter}</kbd>}
    </button>
  );
}
