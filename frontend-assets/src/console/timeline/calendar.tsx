// A calendar for a day or a period: the grid of the WAI-ARIA practices.
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { locale, t } from '../core/language';

/** after returns the day some days later, or earlier for a negative number. Days are YYYY-MM-DD. */
export const after = (day: string, days: number): string => iso(Date.parse(day) + days * 86_400_000);

/** distance returns the number of days from one day to another. */
export const distance = (from: string, to: string): number => (Date.parse(to) - Date.parse(from)) / 86_400_000;

const iso = (time: number): string => new Date(time).toISOString().slice(0, 10);

/** later returns the same day some months later, or the last day of a shorter month. */
function later(day: string, months: number): string {
  const [year, month, date] = day.split('-').map(Number) as [number, number, number];
  const last = new Date(Date.UTC(year, month + months, 0)).getUTCDate();
  return iso(Date.UTC(year, month - 1 + months, Math.min(date, last)));
}

const monthOf = (day: string): string => day.slice(0, 7);
const weekday = (day: string): number => (new Date(day).getUTCDay() + 6) % 7; // 0 is Monday, as in reports
const least = (a: string, b: string): string => (a < b ? a : b);

const isPhone = matchMedia('(max-width: 40rem)');

/** useMonths returns how many months there is room for. */
function useMonths(): number {
  const [months, set] = useState(isPhone.matches ? 1 : 2);
  useEffect(() => {
    const read = (): void => set(isPhone.matches ? 1 : 2);
    isPhone.addEventListener('change', read);
    return () => isPhone.removeEventListener('change', read);
  }, []);
  return months;
}

/**
 * Calendar shows a period and calls pick with another one: of a range after its first day with that day alone, and
 * again after its last one. Days after today cannot be picked.
 */
export function Calendar(props: {
  from: string;
  to: string;
  today: string;
  isRange?: boolean;
  pick(from: string, to: string): void;
}) {
  const { today, isRange, pick } = props;
  const [from, to] = props.from <= props.to ? [props.from, props.to] : [props.to, props.from];
  const count = useMonths();
  const grids = useRef<HTMLDivElement>(null);
  const [first, setFirst] = useState(''); // the first day of a range, while the last one is being chosen
  const [active, setActive] = useState(least(to, today));
  const [shown, setShown] = useState(() => later(monthOf(active) + '-01', 1 - count));
  const picked = useRef('');
  const byKey = useRef(false);

  // A typed date moves the calendar, and ends the choice of a range. Dates that were picked here do not.
  useEffect(() => {
    if (picked.current !== from + to) {
      setFirst('');
      go(least(isRange ? to : from, today));
    }
  }, [from, to]);
  useLayoutEffect(() => {
    // The cell that had the focus may have left with its month.
    if (byKey.current) grids.current!.querySelector<HTMLElement>('[tabindex="0"]')?.focus();
    byKey.current = false;
  }, [active, shown]);

  const go = (day: string): void => {
    const next = least(day, today);
    const lastShown = later(shown, count - 1);
    setActive(next);
    if (monthOf(next) < monthOf(shown)) setShown(monthOf(next) + '-01');
    else if (monthOf(next) > monthOf(lastShown)) setShown(later(monthOf(next) + '-01', 1 - count));
  };
  const turn = (months: number): void => {
    setShown(later(shown, months));
    setActive(least(later(active, months), today));
  };
  const choose = (day: string): void => {
    if (day > today) return;
    setActive(day);
    const other = (isRange && first) || day;
    setFirst(isRange && !first ? day : '');
    const [begin, end] = day < other ? [day, other] : [other, day];
    picked.current = begin + end;
    pick(begin, end);
  };

  const onKeyDown = (event: KeyboardEvent): void => {
    const { key, shiftKey } = event;
    const months = shiftKey ? 12 : 1;
    const moves: Record<string, () => void> = {
      ArrowLeft: () => go(after(active, -1)),
      ArrowRight: () => go(after(active, 1)),
      ArrowUp: () => go(after(active, -7)),
      ArrowDown: () => go(after(active, 7)),
      Home: () => go(after(active, -weekday(active))),
      End: () => go(after(active, 6 - weekday(active))),
      PageUp: () => go(later(active, -months)),
      PageDown: () => go(later(active, months)),
      Enter: () => choose(active),
      ' ': () => choose(active),
    };
    const move = moves[key];
    if (!move || event.metaKey || event.ctrlKey || event.altKey) return;
    event.preventDefault();
    byKey.current = true;
    move();
  };

  const range = first ? [least(first, active), first < active ? active : first] : [from, to];
  return (
    <div class="calendar">
      <button type="button" class="small" aria-label={t('calendar.previous')} onClick={() => turn(-1)}>‹</button>
      <button
        type="button"
        class="small"
        aria-label={t('calendar.next')}
        disabled={monthOf(later(shown, count - 1)) >= monthOf(today)}
        onClick={() => turn(1)}
      >
        ›
      </button>
      <p class="sr" role="status">{isRange && t(first ? 'calendar.pickLast' : 'calendar.pickFirst')}</p>
      <div class="months" ref={grids} onKeyDown={onKeyDown}>
        {Array.from({ length: count }, (_, i) => (
          <Month
            key={i}
            month={later(shown, i)}
            {...{ active, today, choose }}
            from={range[0]!}
            to={range[1]!}
            point={(day) => first && setActive(least(day, today))}
          />
        ))}
      </div>
    </div>
  );
}

/** Month is the grid of a month. The active day alone can be reached with Tab. */
function Month(props: {
  month: string;
  active: string;
  today: string;
  from: string;
  to: string;
  choose(day: string): void;
  /** Called when the pointer is over a day. */
  point(day: string): void;
}) {
  const { month, active, today, from, to } = props;
  const write = (options: Intl.DateTimeFormatOptions, day: string): string =>
    new Intl.DateTimeFormat(locale(), { ...options, timeZone: 'UTC' }).format(new Date(day));
  const whole = new Intl.DateTimeFormat(locale(), { dateStyle: 'full', timeZone: 'UTC' });
  const name = write({ month: 'long', year: 'numeric' }, month);
  const monday = after(month, -weekday(month));
  const weeks = Math.ceil((weekday(month) + distance(month, later(month, 1))) / 7);
  const week = Array.from({ length: 7 }, (_, i) => i);

  const cell = (day: string) => {
    if (monthOf(day) !== monthOf(month)) return <td key={day} />;
    const ends = (day === from ? ' first' : '') + (day === to ? ' last' : '');
    return (
      <td
        key={day}
        role="gridcell"
        class={'day' + (day >= from && day <= to ? ' within' + ends : '')}
        tabIndex={day === active ? 0 : -1}
        aria-label={whole.format(new Date(day))}
        aria-selected={day >= from && day <= to}
        aria-current={day === today ? 'date' : undefined}
        aria-disabled={day > today || undefined}
        data-day={day}
        onClick={() => props.choose(day)}
        onPointerMove={(e) => (e.movementX || e.movementY) && props.point(day)}
      >
        {Number(day.slice(8))}
      </td>
    );
  };
  return (
    <div>
      <p class="month" aria-hidden="true">{name}</p>
      <table role="grid" aria-label={name}>
        <thead>
          <tr>
            {week.map((i) => (
              <th key={i} scope="col" abbr={write({ weekday: 'long' }, after(monday, i))}>
                {write({ weekday: 'short' }, after(monday, i)).slice(0, 2)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {Array.from({ length: weeks }, (_, w) => (
            <tr key={w}>{week.map((i) => cell(after(monday, w * 7 + i)))}</tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
