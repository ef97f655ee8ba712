// What the report opens on demand, and the live page.
import type { ComponentType } from 'preact';
import { addMessages } from './core/language';
import { LivePage } from './drilldown/live';
import messages from './messages/drilldown';

addMessages(messages);

export { Dates, FilterDialog, Segments } from './drilldown/dialogs';
export { Funnels, Properties } from './drilldown/funnels';
export { WholeTable } from './drilldown/table';

export const pages: Record<string, ComponentType<any>> = { '/sites/:id/live': LivePage };
