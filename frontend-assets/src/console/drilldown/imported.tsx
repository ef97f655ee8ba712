// What explains imported figures in a report.
import { locale, t, type TextKey } from '../core/language';
import { isDetail } from '../core/values';
import type { View } from '../core/view';
import type { PanelRows, ReportFields } from '../operations';
import { Unknown } from './unknown';

/** Missing says why imported days are not in figures. */
export function Missing({ state }: { state: string }) {
  return /NONE|INCLUDED/.test(state) ? null : <>{t(('imported.' + state) as TextKey)}</>;
}

/** Imported says which days another service has counted, and which of their figures are missing. */
export function Imported({ report, view }: { report: ReportFields; view: View }) {
  const { imports, imported, seriesImported } = report;
  const format = new Intl.DateTimeFormat(locale(), { dateStyle: 'medium', timeZone: 'UTC' });
  const next = (day: string): string => format.format(Date.parse(day) + 86_400_000);
  const without = /^visit/.test(view.metric) && imports.find((m) => !m.hasVisitors);
  return (
    <p class="hint">
      {imports.map(({ service, to }) => t('imported.before', { day: next(to), service })).join(' ')}{' '}
      <Missing state={seriesImported === 'INCLUDED' ? imported : seriesImported} />{' '}
      {without && t('imported.gap', { service: without.service })}
    </p>
  );
}

/** Hints explains the rows of a panel. A filter is explained at the chart. */
export function Hints({ id, rows: { imported, edges }, dimension }: { id: string; rows: PanelRows; dimension: string }) {
  return (
    <>
      {isDetail(dimension) && edges[0] && edges.every(({ node }) => !node.value) && <Unknown id={id} detail={dimension} />}
      {dimension === 'CHANNEL' && edges.some(({ node }) => node.value === 'unassigned') && <p class="hint">{t('panel.unassigned')}</p>}
      {/NO_|WHOLE/.test(imported) && <p class="hint"><Missing state={imported} /></p>}
      {edges.some(({ node }) => node.onlyImported) && <p class="hint">{t('imported.rows')}</p>}
    </>
  );
}
