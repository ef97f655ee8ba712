// What stands below the chart: that there are no visits, the days of imports, and why the figure differs, which is a module of its own.
import { useQuery } from '../core/data';
import { t } from '../core/language';
import { loadModule } from '../core/modules';
import { addressOf, type View } from '../core/view';
import type { ReportFields } from '../operations';
import { Imported } from './imported';

const loadWhy = async () => ({ module: await loadModule(() => import('../why')) });

interface Props {
  id: string;
  view: View;
  report: ReportFields;
}

/** Below explains the figures of the chart. */
export const Below = (props: Props) => (
  <>
    {props.report.totals.visits + props.report.totals.pageviews === 0 && <Nothing view={props.view} />}
    {props.report.imports[0] && <Imported {...props} />}
    {props.report.comparedFrom && <Why {...props} />}
  </>
);

/** Why keeps the room of the line until its module is loaded. Without the module there is no line. */
function Why(props: Props) {
  const { data } = useQuery(loadWhy, {});
  return data ? <data.module.Why {...props} /> : <p class="why" />;
}

/** Nothing explains a period without visits. */
function Nothing({ view }: { view: View }) {
  return (
    <p class="notice plain">
      {view.filters.length > 0 ? (
        <>
          {t('report.noneFiltered')} <a href={addressOf(view, { filters: [] })}>{t('filter.clear')}</a>
        </>
      ) : (
        <>
          {t('report.none')}{' '}
          {view.period !== 'today' && <a href={addressOf(view, { period: 'today', from: '', to: '' })}>{t('report.today')}</a>}
        </>
      )}
    </p>
  );
}
