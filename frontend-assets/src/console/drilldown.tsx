// What the report opens on demand, and the live page.
import type { ComponentType } from 'preact';
import { addMessages } from './core/language';
import { naming } from './core/values';
import { LivePage } from './drilldown/live';
import { sourceName } from './drilldown/sources';
import messages from './messages/drilldown';

addMessages(messages);
naming.of = sourceName;

export { AsTable } from './drilldown/charttable';
export { Changes } from './drilldown/changes';
export { FilterDialog, Segments } from './drilldown/dialogs';
export { Funnels, Properties } from './drilldown/funnels';
export { Hints, Imported } from './drilldown/imported';
export { Notices } from './drilldown/notices';
export { WholeTable } from './drilldown/table';

export const pages: Record<string, ComponentType<any>> = { '/sites/:id/live': LivePage };
