// Controls of a report's figures: period, comparison, filters and segments.
import { t } from '../core/language';
import { filterLabel } from '../core/values';
import { addressOf, type Filter, type View } from '../core/view';
import { type Choose, MenuButton, type Opens } from './menubutton';
import { compareName, periodName } from './names';

/** Controls are the period, the comparison and the filters of a view. */
export function Controls(props: {
  id: string;
  view: View;
  opens: Opens;
  open(name: Opens): void;
  choose: Choose;
  need(): void;
  timeline: typeof import('../timeline') | undefined;
}) {
  const { id, view, opens, open, choose, need, timeline } = props;
  const compared = view.compare && view.compare + (view.dates ? ' dates' : '');
  return (
    <div class="filters controls" onPointerEnter={need} onFocusIn={need}>
      <MenuButton name="period" value={view.from ? 'custom' : view.period} label={t('period.label')} text={periodName(view)} {...{ opens, open }}>
        {timeline && <timeline.PeriodMenu {...{ view, choose, open }} />}
      </MenuButton>
      <MenuButton
        name="comparison"
        value={compared}
        label={t('compare.label')}
        text={compareName(view)}
        disabled={view.period === 'all'}
        {...{ opens, open }}
      >
        {timeline && <timeline.CompareMenu {...{ view, choose, open }} />}
      </MenuButton>
      <button type="button" id="filter" onClick={() => open('filter')}>{t('filter.title')}</button>
      {id && <button type="button" onClick={() => open('segments')}>{t('segment.title')}</button>}
      <button type="button" onClick={() => open('download')}>{t('report.download')}</button>
    </div>
  );
}

/** Chips are the filters of a view, each with a link that removes it. An open segment is one chip, which can be expanded. */
export function Chips({ view }: { view: View }) {
  const { filters, segment, inSegment } = view;
  if (filters.length === 0) return null;

  const chips = filters.map((filter) => <Chip key={addressOf(view, { filters: [filter] })} view={view} filter={filter} />);
  return (
    <ul class="chips" aria-label={t('filter.active')}>
      {segment && (
        <li class="segment">
          <details>
            <summary><strong>{segment}</strong></summary>
            <ul class="chips">{chips.slice(0, inSegment)}</ul>
          </details>
          <Remove text={segment} address={addressOf(view, { filters: filters.slice(inSegment), segment: '' })} />
        </li>
      )}
      {segment ? chips.slice(inSegment) : chips}
      {filters.length > 1 && (
        <li class="plain"><a href={addressOf(view, { filters: [] })}>{t('filter.clear')}</a></li>
      )}
    </ul>
  );
}

function Chip({ view, filter }: { view: View; filter: Filter }) {
  const { what, operator, values } = filterLabel(filter);
  const text = `${what} ${operator} ${values}`;
  return (
    <li>
      <span title={text}>{what} {operator} <strong>{values}</strong></span>
      <Remove text={text} address={addressOf(view, { filters: view.filters.filter((f) => f !== filter) })} />
    </li>
  );
}

const Remove = ({ text, address }: { text: string; address: string }) => (
  <a href={address} aria-label={t('filter.remove', { filter: text })}>×</a>
);
