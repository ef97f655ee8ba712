// The hours of a day as columns.
import { exact } from '../core/format';
import { t } from '../core/language';
import { Change } from '../core/metrics';
import { share } from '../core/ui';
import { dimensionText, valueText } from '../core/values';
import { addressOf, type View, withFilter } from '../core/view';
import type { PanelRows } from '../operations';
import { Figure, Head, valueFilter } from '../parts/ranks';

type Row = PanelRows['edges'][number]['node'];

const dimension = 'HOUR_OF_DAY';

/** Hours draws the 24 hours as columns, which screen readers read as a table. Each is a link that filters. */
export function Hours({ view, list }: { view: View; list: Row[] }) {
  const most = Math.max(...list.map(({ metrics }) => metrics.visitors), 1);
  const name = dimensionText(dimension);
  return (
    <div role="table" class="hours" aria-label={name}>
      <Head names={[name, t('metric.visitors')]} hidden />
      <div class="strip" role="rowgroup">
        {list.map(({ value, onlyImported, metrics: { visitors, comparison } }) => {
          const text = valueText(dimension, value);
          const filters = withFilter(view.filters, valueFilter(dimension, value));
          return (
            <div key={value} role="row" style={share(visitors, most)} data-hour={Number(value)}>
              <span role="rowheader">
                {onlyImported ? text : <a href={addressOf(view, { filters })} title={t('filter.by', { value: text })}>{text}</a>}
              </span>
              <Figure>
                {exact(visitors)} {comparison && <Change now={visitors} before={comparison.visitors} />}
              </Figure>
            </div>
          );
        })}
      </div>
    </div>
  );
}
