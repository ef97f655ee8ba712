// The tabs of the panel of events, and the page of journeys. Journeys and cohorts have a module of their own.
import { useQuery } from '../core/data';
import { loadModule } from '../core/modules';
import { Failed, Loading } from '../core/states';
import type { View } from '../core/view';
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

/** Following shows journeys or cohorts: the page of a journey if the address has one, and otherwise the tab. */
export function Following({ id, view }: { id: string; view: View }) {
  const { data, error, reload } = useQuery(loadJourneys, {});
  if (error) return <Failed failure={error} retry={reload} />;
  if (!data) return <Loading />;

  const { Cohorts, Journeys, Starts } = data.module;
  const Shown = view.journey ? Journeys : view.tabs['events'] === 'COHORT' ? Cohorts : Starts;
  return <Shown id={id} view={view} />;
}
