// The figures of a dimension's whole table.
import type { ReportMetric, RowsReport } from '../operations';

export type Connection = NonNullable<RowsReport['breakdown']>;
export type Row = Connection['edges'][number]['node'];
export type Column = Exclude<keyof Row['metrics'], 'comparison'>;

/** Cells are the lines of a CSV file. */
export type Cells = (string | number | null)[][];

/** columnsOf lists the figures that mean something for a dimension. */
export function columnsOf(dimension: string): Column[] {
  if (dimension === 'EVENT' || dimension === 'PROPERTY') return ['visitors', 'events', 'conversionRate'];
  if (dimension === 'PAGE') return ['visitors', 'pageviews', 'timeOnPage', 'scrollDepth', 'exitRate'];
  return ['visitors', 'visits', 'pageviews', 'viewsPerVisit', 'bounceRate', 'engagementTime', 'conversionRate'];
}

/** enumOf returns a column's name in the schema: viewsPerVisit is VIEWS_PER_VISIT. */
export const enumOf = (column: string): ReportMetric =>
  column.replace(/[A-Z]/g, (letter) => '_' + letter).toUpperCase() as ReportMetric;

/** rounded rounds a figure to two decimals. */
export const rounded = (figure: number | null): number | null => figure && Math.round(figure * 100) / 100;

/** cellsOf returns the header and the rows of a table as the cells of a CSV file. */
export function cellsOf(dimension: string, rows: Row[], compared = rows.some((row) => row.metrics.comparison)): Cells {
  const columns = columnsOf(dimension);
  return [
    [dimension.toLowerCase(), ...columns.map((column) => enumOf(column).toLowerCase()), ...(compared ? ['compared_visitors'] : [])],
    ...rows.map(({ value, metrics }) => [
      value,
      ...columns.map((column) => rounded(metrics[column])),
      ...(compared ? [metrics.comparison?.visitors ?? null] : []),
    ]),
  ];
}
