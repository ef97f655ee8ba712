// The tabs of the panel of events, the page of journeys, and the download: parts that are modules of their own.
import type { ComponentChildren, ComponentProps } from 'preact';
import { useQuery } from '../core/data';
import { loadModule } from '../core/modules';
import { Failed, Loading } from '../core/states';
import type { View } from '../core/view';
import { Funnels, Properties, type RowsOf } from './funnels';
import { Goals } from './goals';

type Zip = typeof import('../zip');

const loadJourneys = async () => ({ module: await loadModule(() => import('../journeys')) });
const loadZip = async (): Promise<{ module: Zip }> => ({ module: await loadModule(() => import('../zip')) });

/** useModule shows a part of a module once it is loaded. */
function useModule<M>(load: () => Promise<{ module: M }>, show: (module: M) => ComponentChildren) {
  const { data, error, reload } = useQuery(load, {});
  if (error) return <Failed failure={error} retry={reload} />;
  return data ? <>{show(data.module)}</> : <Loading />;
}

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
export const Following = ({ id, view }: { id: string; view: View }) =>
  useModule(loadJourneys, ({ Cohorts, Journeys, Starts }) => {
    const Shown = view.journey ? Journeys : view.tabs['events'] === 'COHORT' ? Cohorts : Starts;
    return <Shown id={id} view={view} />;
  });

/** Download is the dialog of the download. */
export const Download = (props: ComponentProps<Zip['Download']>) => useModule(loadZip, (module) => <module.Download {...props} />);
