// The sum, average and percentiles of a property with numbers.
import type { ComponentChildren } from 'preact';
import { useQuery } from '../core/data';
import { exact } from '../core/format';
import { locale, t } from '../core/language';
import { reading } from '../core/source';
import { Table } from '../core/ui';
import { valueText } from '../core/values';
import { selectionOf, type View } from '../core/view';
import { propertyNumbers, sharedPropertyNumbers } from '../operations';
import { Facts, pending } from '../parts/ranks';

/** figure writes a number. Small numbers, such as a layout shift of 0.0123, keep four digits. */
function figure(n: number | null): string {
  if (n === null) return '–';
  const size = Math.abs(n);
  return n.toLocaleString(
    locale(),
    size >= 1e15
      ? { notation: 'scientific', maximumFractionDigits: 3 }
      : size < 10
        ? { maximumSignificantDigits: 4 }
        : { maximumFractionDigits: 2 },
  );
}

/** Numbers shows the figures of a property and of its pages, and its values on demand. Without a number, the values alone. */
export function Numbers(props: { id: string; view: View; property: string; event: string; values: ComponentChildren }) {
  const { id, view, property, event } = props;
  const { period, filters } = selectionOf(view);
  const query = useQuery(reading(id, propertyNumbers, sharedPropertyNumbers), { period, filters, event: event || null, property }, true);

  const wait = pending(query);
  if (wait) return wait;

  const numbers = query.data!.report?.numbers;
  const totals = numbers?.totals;
  if (!totals?.numbers) return <>{props.values}</>;

  const pages = (numbers?.breakdown?.nodes ?? []).filter(({ figures }) => figures.numbers > 0);
  const p75 = t('numbers.percentile', { n: 75 });

  const facts: [string, string][] = [
    [t('numbers.numbers'), exact(totals.numbers)],
    [t('numbers.sum'), figure(totals.sum)],
    [t('numbers.average'), figure(totals.average)],
    [t('numbers.p50'), figure(totals.p50)],
    [p75, figure(totals.p75)],
    [t('numbers.percentile', { n: 95 }), figure(totals.p95)],
  ];
  return (
    <>
      <dl class="facts even"><Facts facts={facts} /></dl>
      {totals.unknown > 0 && <p class="hint">{t('numbers.unknown', { n: totals.unknown })}</p>}
      {pages[0] && (
        <Table label={t('dimension.PAGE')} head={[t('one.PAGE'), t('numbers.numbers'), t('numbers.p50'), p75]}>
          {pages.map(({ value, figures }) => (
            <tr key={value}>
              <th scope="row">{valueText('PAGE', value)}</th>
              <td class="number">{exact(figures.numbers)}</td>
              <td class="number">{figure(figures.p50)}</td>
              <td class="number">{figure(figures.p75)}</td>
            </tr>
          ))}
        </Table>
      )}
      <details>
        <summary>{t('numbers.values')}</summary>
        {props.values}
      </details>
    </>
  );
}
