// The tabs of the panel of events, and the dialog of journeys. Journeys and cohorts have a module of their own.
import { useQuery } from '../core/data';
import { loadModule } from '../core/modules';
import { go } from '../core/router';
import { Failed, Loading } from '../core/states';
import { addressOf, type View } from '../core/view';
import { Funnels, Properties, type RowsOf } from './funnels';
import { Goals } from './goals';

const loadJourneys = async () => ({ module: await loadModule(() => import('../journeys')) });

/** EventsTab shows a tab of the panel of events that is not its first one. */
export function EventsTab(props: { id: string; view: View; rows: RowsOf }) {
  const { id, view } = props;
  const tab = view.tabs['events'];
  if (tab === 'PROPERTY') return <Properties {...props} />;
  if (tab === 'GOAL') return <Goals id={id} view={view} />;
  if (tab === 'FUNNEL') return <Funnels id={id} view={view} />;
  return <Following key={tab} id={id} view={view} />;
}

/** Following shows journeys or cohorts: the dialog if it is open, and otherwise the tab. */
export function Following({ id, view, dialog }: { id: string; view: View; dialog?: boolean }) {
  const { data, error, reload } = useQuery(loadJourneys, {});
  if (error) return <Failed failure={error} retry={reload} />;
  if (!data) return dialog ? null : <Loading />;

  const { Cohorts, Journeys, Starts } = data.module;
  const close = (): void => go(addressOf(view, { journey: '', before: false }));
  if (dialog) return <Journeys id={id} view={view} onClose={close} />;
  return view.tabs['events'] === 'COHORT' ? <Cohorts id={id} view={view} /> : <Starts id={id} view={view} />;
}
