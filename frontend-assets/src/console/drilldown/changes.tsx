// What a user without a view of the page needs after a change: a sentence, and the focus.
import { useEffect, useRef, useState } from 'preact/hooks';
import { clock, exact } from '../core/format';
import { t } from '../core/language';
import { filterLabel } from '../core/values';
import type { Filter, View } from '../core/view';
import type { ReportFields } from '../operations';
import { compareName, days, periodName } from '../report/names';

/** partsOf writes the filters, the period and the comparison of a view. */
function partsOf(view: View): string[] {
  return [
    view.filters.map((filter) => Object.values(filterLabel(filter)).join(' ')).join(', ') || t('filter.none'),
    periodName(view),
    compareName(view),
  ];
}

/** asOf writes of which days figures are, and when they were read. */
export const asOf = (report: ReportFields): string => t('report.asOf', { days: days(report), time: clock(report.asOf) });

/** Changes writes what has changed since the first view or the last change, and the visitors, for a live region. */
export function Changes(props: { first: View; view: View; report: ReportFields | null; failed: boolean; busy: boolean }) {
  const { first, view, report, failed, busy } = props;
  const [text, setText] = useState('');
  const now = partsOf(view);
  const shown = useRef(partsOf(first));
  const wrong = useRef(false); // what was said is not true any more
  useFocus(first.filters, view.filters);

  useEffect(() => {
    if (busy) return;
    if (failed) {
      wrong.current = true;
      setText([t('report.unread'), report && asOf(report)].filter(Boolean).join(' '));
    }
    if (failed || !report) return;

    const changed = now.filter((part, i) => part !== shown.current[i]);
    if (wrong.current && !changed[0]) changed.push(now[1]!);
    shown.current = now;
    wrong.current = false;
    if (!changed[0]) return;

    const { visitors, comparison } = report.totals;
    const before = comparison && t('compare.before', { before: exact(comparison.visitors) });
    setText(`${changed.join(', ')}: ${[t('report.visitors', { n: visitors }), before].filter(Boolean).join(', ')}`);
  }, [busy, failed, ...now]);
  return <>{text}</>;
}

const chips = '.chips li:not(.plain) a';

/** useFocus moves the focus to a filter that the keyboard has added, and from a removed one to the next. */
function useFocus(first: Filter[], filters: Filter[]): void {
  const removed = useRef(-1);
  const before = useRef(first.map((filter) => JSON.stringify(filter)));
  useEffect(() => {
    const clicked = ({ target }: Event): void => {
      const link = target instanceof Element && target.closest<HTMLElement>('.chips a');
      if (link) removed.current = Math.max([...document.querySelectorAll<HTMLElement>(chips)].indexOf(link), 0);
    };
    addEventListener('click', clicked, true);
    return () => removeEventListener('click', clicked, true);
  }, []);

  useEffect(() => {
    const now = filters.map((filter) => JSON.stringify(filter));
    const added = now.findIndex((filter) => !before.current.includes(filter));
    const at = removed.current;
    const fewer = now.length < before.current.length;
    before.current = now;
    removed.current = -1;

    const links = document.querySelectorAll<HTMLElement>(chips);
    if (fewer && at >= 0) (links[at] ?? links[at - 1] ?? document.getElementById('filter'))?.focus();
    else if (document.activeElement?.matches('.figures :focus-visible, .filters :focus-visible')) links[added]?.focus();
  }, [JSON.stringify(filters)]);
}
