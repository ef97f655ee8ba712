// The parts that the site's page opens on demand, and the live page.
import { addMessages, type ComponentType } from './core';
import messages from './messages/details';
import { LivePage } from './details/live';

addMessages(messages);

export { Dates, FilterDialog, Segments } from './details/dialogs';
export { Funnels, Properties } from './details/events';
export { WholeTable } from './details/table';

export const pages: Record<string, ComponentType<any>> = { '/sites/:id/live': LivePage };
