// What the report opens on demand, and the live page.
import type { ComponentType } from 'preact';
import { addMessages } from './core/language';
import { naming } from './core/values';
import { LivePage } from './drilldown/live';
import { eventName, hostText } from './drilldown/names';
import messages from './messages/drilldown';
import progress from './messages/progress';

addMessages({ ...messages, ...progress });
naming.of = hostText;
naming.event = (name) => eventName(name) || name;

export { Below } from './drilldown/below';
export { AsTable } from './drilldown/charttable';
export { asOf, Changes } from './drilldown/changes';
export { FilterDialog, Segments } from './drilldown/dialogs';
export { Download, EventsTab, Following } from './drilldown/following';
export { EventLabel } from './drilldown/eventlabel';
export { Hours } from './drilldown/hours';
export { Icon } from './drilldown/icon';
export { Hints } from './drilldown/imported';
export { Notices } from './drilldown/notices';
export { Revenue } from './drilldown/revenue';
export { WholeTable } from './drilldown/table';

export const pages: Record<string, ComponentType<any>> = { '/sites/:id/live': LivePage };
