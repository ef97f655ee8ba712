// The CSV files of a report that are made of what the page shows: about it, totals, series and revenue.
import { filterLabel } from '../core/values';
import type { View } from '../core/view';
import { type Cells, enumOf, rounded } from '../drilldown/columns';
import type { ReportFields } from '../operations';

const metrics = ['visitors', 'visits', 'pageviews', 'viewsPerVisit', 'bounceRate', 'engagementTime', 'conversions', 'conversionRate'] as const;
const names = metrics.map((metric) => enumOf(metric).toLowerCase());
const comparedNames = names.map((name) => 'compared_' + name);

/** about describes the report: its site, days, filters, and until when it counts. */
export function about(domain: string, report: ReportFields, view: View): Cells {
  return [
    ['what', 'value'],
    ['site', domain],
    ['from', report.from],
    ['to', report.to],
    ...(report.comparedFrom ? [['compared_from', report.comparedFrom], ['compared_to', report.comparedTo]] : []),
    ['time_zone', report.timeZone],
    ['as_of', report.asOf],
    ['imported', report.imported],
    ...view.filters.map((filter) => {
      const { what, operator, values } = filterLabel(filter);
      return ['filter', `${what} ${operator} ${values}`];
    }),
  ];
}

/** totals has a line for each figure of the whole period. */
export function totals({ totals: all, comparedFrom }: ReportFields): Cells {
  return [
    ['figure', 'value', ...(comparedFrom ? ['compared'] : [])],
    ...metrics.map((metric, i) => [
      names[i]!,
      rounded(all[metric]),
      ...(comparedFrom ? [rounded(all.comparison?.[metric] ?? null)] : []),
    ]),
  ];
}

/** series has a line for each part of the chart. */
export function series({ series: points, comparedFrom }: ReportFields): Cells {
  return [
    ['start', ...names, 'unfinished', ...(comparedFrom ? ['compared_start', ...comparedNames] : [])],
    ...points.map(({ start, partial, comparedStart, metrics: now }) => [
      start,
      ...metrics.map((metric) => rounded(now[metric])),
      String(partial),
      ...(comparedFrom ? [comparedStart, ...metrics.map((metric) => rounded(now.comparison?.[metric] ?? null))] : []),
    ]),
  ];
}

/** revenue has a line for each currency of both periods, with exact amounts. */
export function revenue({ totals: { revenue: list, comparison }, comparedFrom }: ReportFields): Cells {
  const before = comparison?.revenue ?? [];
  const currencies = [...new Set([...list, ...before].map((r) => r.currency))].sort();
  const figures = ['net', 'gross', 'refunded', 'purchases', 'averageOrder'] as const;
  const heads = figures.map((figure) => enumOf(figure).toLowerCase());
  return [
    ['currency', ...heads, ...(comparedFrom ? heads.map((head) => 'compared_' + head) : [])],
    ...currencies.map((currency) => {
      const of = (rows: typeof list): (string | number | null)[] => {
        const row = rows.find((r) => r.currency === currency);
        // A spreadsheet reads an exact amount as a number only without the apostrophe of a text.
        return figures.map((figure) => amount(row?.[figure] ?? null));
      };
      return [currency, ...of(list), ...(comparedFrom ? of(before) : [])];
    }),
  ];
}

/** amount returns an exact amount as a number where a number has all of its digits. */
function amount(text: string | number | null): string | number | null {
  const number = Number(text);
  return typeof text === 'string' && String(number) === text ? number : text;
}
