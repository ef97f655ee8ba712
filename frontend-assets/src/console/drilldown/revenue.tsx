// The panel of revenue: its figures, its course, and where it came from, for each currency.
import type { ComponentChildren } from 'preact';
import { useQuery } from '../core/data';
import { exact } from '../core/format';
import { locale, t } from '../core/language';
import { Change } from '../core/metrics';
import { reading } from '../core/source';
import { share, Table } from '../core/ui';
import { coded, dimensionText, isPlain, isSource, valueText } from '../core/values';
import { addressOf, selectionOf, type View, withFilter } from '../core/view';
import { money } from '../parts/format';
import { revenueFigures, sharedRevenueFigures, type ReportDimension, type ReportFields, type RevenueFields, type RevenueReport } from '../operations';
import { Facts as Others, Figure, Head, pending, valueFilter } from '../parts/ranks';
import { Icon } from './icon';

/** listed is the number of values that the panel shows. */
const listed = 10;

/** Revenue shows the exact revenue of each currency. The tabs choose the dimension of its rows. */
export function Revenue(props: { id: string; view: View; report: ReportFields; tabs: ComponentChildren }) {
  const { id, view, report, tabs } = props;
  const by = view.tabs['revenue'] as ReportDimension;
  const { period, filters } = selectionOf(view);
  const query = useQuery(reading(id, revenueFigures, sharedRevenueFigures), { period, filters, by }, true);

  const { revenue, comparison } = report.totals;
  const found = query.data?.report;
  return (
    <section class="card panel whole-row" aria-label={t('panel.revenue')}>
      <h2>{t('panel.revenue')}</h2>
      {revenue.map((r) => (
        <div key={r.currency} class="currency">
          <Facts r={r} before={comparison?.revenue.find((b) => b.currency === r.currency)} />
          {found && <Course found={found} currency={r.currency} zone={report.timeZone} />}
        </div>
      ))}
      {tabs}
      {pending(query) ?? (found && (
        <div class="later" aria-busy={query.busy}>
          {revenue.map(({ currency }) => (
            <Shares key={currency} view={view} by={by} found={found} currency={currency} named={revenue.length > 1} />
          ))}
        </div>
      ))}
    </section>
  );
}

/** currencyText returns the name of a currency with its code, such as "Euro (EUR)". */
function currencyText(code: string): string {
  const name = new Intl.DisplayNames([locale()], { type: 'currency', fallback: 'code' }).of(code) ?? code;
  return name === code ? code : `${name} (${code})`;
}

function Facts({ r, before }: { r: RevenueFields; before: RevenueFields | undefined }) {
  const facts: [string, string][] = [
    [t('revenue.gross'), money(r.gross, r.currency)],
    [t('revenue.refunded'), money(r.refunded, r.currency)],
    [t('revenue.purchases'), exact(r.purchases)],
    [t('revenue.refunds'), exact(r.refunds)],
    [t('revenue.average'), r.averageOrder === null ? '–' : money(r.averageOrder, r.currency)],
  ];
  return (
    <dl class="facts">
      <div class="net">
        <dt>{t('revenue.net', { currency: currencyText(r.currency) })}</dt>
        <dd>
          <strong>{money(r.net, r.currency)}</strong>{' \u00a0'}
          {before && <Change now={Number(r.net)} before={Number(before.net)} />}
        </dd>
      </div>
      <Others facts={facts} />
    </dl>
  );
}

const height = 72;

/** Course draws the net revenue of each part of the period as a column, refunds below the line, and lists them as a table. */
function Course({ found, currency, zone }: { found: RevenueReport; currency: string; zone: string }) {
  const points = found.series
    .filter(({ start }) => start <= found.asOf)
    .map(({ start, metrics }) => ({ start, r: metrics.revenue.find((r) => r.currency === currency) }));
  const nets = points.map(({ r }) => Number(r?.net ?? 0));
  const most = Math.max(...nets, 0);
  const least = Math.min(...nets, 0);
  const scale = height / (most - least || 1);

  const hours = points[1] && Date.parse(points[1].start) - Date.parse(points[0]!.start) < 43_200_000;
  const format = new Intl.DateTimeFormat(locale(), { dateStyle: 'medium', ...(hours && { timeStyle: 'short' }), timeZone: zone });
  const time = (start: string): string => format.format(new Date(start));
  const label = t('revenue.course', { currency: currencyText(currency) });
  return (
    <>
      <svg class="course" viewBox={`0 0 ${points.length * 8} ${height}`} preserveAspectRatio="none" role="img" aria-label={label}>
        {points.map(({ start, r }, i) => (
          <g key={start} class={nets[i]! < 0 ? 'below' : undefined}>
            <title>{`${time(start)}: ${money(r?.net ?? '0', currency)}`}</title>
            <rect class="hit" x={i * 8} width="8" height={height} />
            <rect x={i * 8 + 1} y={(most - Math.max(nets[i]!, 0)) * scale} width="6" height={Math.abs(nets[i]!) * scale} />
          </g>
        ))}
      </svg>
      <p class="ends hint" aria-hidden="true">
        <span>{points[0] && time(points[0].start)}</span>
        <span>{t('revenue.most', { amount: money(String(most), currency) })}</span>
        <span>{points[0] && time(points.at(-1)!.start)}</span>
      </p>
      <details>
        <summary>{t('chart.asTable')}</summary>
        <Table label={label} head={[t('chart.time'), ...columns()]}>
          {points
            .filter(({ r }) => r)
            .map(({ start, r }) => (
              <tr key={start}>
                <th scope="row">{time(start)}</th>
                <Amounts r={r!} />
              </tr>
            ))}
        </Table>
      </details>
    </>
  );
}

/** columns are the headers of Amounts. */
const columns = (): string[] => [t('revenue.purchases'), t('revenue.gross'), t('revenue.refunded'), t('revenue.netShort')];

function Amounts({ r }: { r: RevenueFields }) {
  return (
    <>
      <td class="number">{exact(r.purchases)}</td>
      <td class="number">{money(r.gross, r.currency)}</td>
      <td class="number">{money(r.refunded, r.currency)}</td>
      <td class="number">{money(r.net, r.currency)}</td>
    </>
  );
}

/** Shares lists the values of a dimension with the most revenue in a currency. */
function Shares(props: { view: View; by: ReportDimension; found: RevenueReport; currency: string; named: boolean }) {
  const { view, by, found, currency } = props;
  const rows = (found.breakdown?.edges ?? [])
    .flatMap(({ node }) => {
      const r = node.metrics.revenue.find((r) => r.currency === currency);
      return r ? [{ ...node, r }] : [];
    })
    .sort((a, b) => Number(b.r.net) - Number(a.r.net));
  const most = Math.max(...rows.map(({ r }) => Number(r.net)), 0);
  const name = dimensionText(by) + (props.named ? ', ' + currencyText(currency) : '');
  return (
    <>
      <div role="table" class="shares" aria-label={name}>
        <Head names={[name, t('revenue.purchases'), t('revenue.refunded'), t('revenue.netShort')]} />
        <div class={by in coded ? 'ranks coded' : 'ranks'} role="rowgroup">
          {rows.slice(0, listed).map((row) => {
            const text = valueText(by, row.value);
            const filters = withFilter(view.filters, valueFilter(by, row.value));
            return (
              <div key={row.value} role="row" style={share(Math.max(Number(row.r.net), 0), most)}>
                <span role="rowheader" title={text === row.value ? undefined : row.value}>
                  {isSource(by) && <Icon source={row.value} />}
                  {isPlain(by, row) ? <span>{text}</span> : <a href={addressOf(view, { filters })}>{text}</a>}
                </span>
                <Figure>{exact(row.r.purchases)}</Figure>
                <Figure>{Number(row.r.refunded) ? money(row.r.refunded, currency) : '–'}</Figure>
                <Figure>{money(row.r.net, currency)}</Figure>
              </div>
            );
          })}
        </div>
      </div>
      {rows.length > listed && <p class="hint">{t('revenue.first', { n: listed, all: rows.length })}</p>}
      {(found.breakdown?.totalCount ?? 0) > 1000 && <p class="hint">{t('revenue.cut')}</p>}
    </>
  );
}
