// Controls of a report's figures: period, comparison, filters and segments.
import { t, type TextKey } from '../core/language';
import { filterLabel } from '../core/values';
import { addressOf, type Filter, type Period, periods, type View } from '../core/view';
import type { Choose } from './report';

/** Opens names the dialog that is open over a report. */
export type Opens = '' | 'dates' | 'compare' | 'filter' | 'segments' | 'download';

/** periodText returns the name of a preset. */
export const periodText = (period: string): string => t(('period.' + period) as TextKey);

/** Controls are the period, the comparison and the filters of a view. */
export function Controls(props: { id: string; view: View; open(dialog: Opens): void; choose: Choose }) {
  const { id, view, open, choose } = props;
  const custom = view.from !== '';
  const compared = view.compare && view.compare + (view.dates ? ' dates' : '');
  return (
    <div class="filters controls">
      <label>
        <span class="sr">{t('period.label')}</span>
        <select
          value={custom ? 'custom' : view.period}
          onChange={(e) => {
            const chosen = e.currentTarget.value;
            if (chosen === 'custom') {
              e.currentTarget.value = custom ? 'custom' : view.period;
              open('dates');
            } else choose(() => ({ period: chosen, from: '', to: '' }));
          }}
        >
          {custom && <option value="custom">{`${view.from} – ${view.to}`}</option>}
          {(Object.keys(periods) as Period[]).map((period) => (
            <option key={period} value={period}>
              {periodText(period)}
            </option>
          ))}
          {!custom && <option value="custom">{t('period.custom')}</option>}
        </select>
      </label>
      {custom && (
        <button type="button" onClick={() => open('dates')}>
          {t('period.custom')}
        </button>
      )}
      <label>
        <span class="sr">{t('compare.label')}</span>
        <select
          disabled={view.period === 'all'}
          value={view.period === 'all' ? '' : compared}
          onChange={(e) => {
            const [compare = '', dates] = e.currentTarget.value.split(' ');
            if (compare === 'own') {
              e.currentTarget.value = compared;
              open('compare');
            } else choose(() => ({ compare, dates: !!dates }));
          }}
        >
          <option value="">{t(view.period === 'all' ? 'compare.nothing' : 'compare.none')}</option>
          <option value="previous">{t('compare.previous')}</option>
          <option value="year">{t('compare.year')}</option>
          <option value="previous dates">{t('compare.previousDates')}</option>
          <option value="year dates">{t('compare.yearDates')}</option>
          {/^\d/.test(compared) && <option value={compared}>{t('compare.since', { day: view.compare })}</option>}
          <option value="own">{t('period.custom')}</option>
        </select>
      </label>
      <button type="button" id="filter" onClick={() => open('filter')}>
        {t('filter.title')}
      </button>
      {id && (
        <button type="button" onClick={() => open('segments')}>
          {t('segment.title')}
        </button>
      )}
      <button type="button" onClick={() => open('download')}>
        {t('report.download')}
      </button>
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
            <summary>
              <strong>{segment}</strong>
            </summary>
            <ul class="chips">{chips.slice(0, inSegment)}</ul>
          </details>
          <Remove text={segment} address={addressOf(view, { filters: filters.slice(inSegment), segment: '' })} />
        </li>
      )}
      {segment ? chips.slice(inSegment) : chips}
      {filters.length > 1 && (
        <li class="plain">
          <a href={addressOf(view, { filters: [] })}>{t('filter.clear')}</a>
        </li>
      )}
    </ul>
  );
}

function Chip({ view, filter }: { view: View; filter: Filter }) {
  const { what, operator, values } = filterLabel(filter);
  const text = `${what} ${operator} ${values}`;
  return (
    <li>
      <span title={text}>
        {what} {operator} <strong>{values}</strong>
      </span>
      <Remove text={text} address={addressOf(view, { filters: view.filters.filter((f) => f !== filter) })} />
    </li>
  );
}

const Remove = ({ text, address }: { text: string; address: string }) => (
  <a href={address} aria-label={t('filter.remove', { filter: text })}>
    ×
  </a>
);
