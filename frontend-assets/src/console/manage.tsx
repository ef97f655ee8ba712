// The pages about a site's reports, their readers and their usage, and the operator's page, which are loaded on demand.
import { addMessages, type ComponentType } from './core';
import { Operator } from './manage/operator';
import { Saved } from './manage/saved';
import { Sharing } from './manage/sharing';
import { Usage } from './manage/usage';
import messages from './messages/manage';

addMessages(messages);

export const pages: Record<string, ComponentType<any>> = {
  '/sites/:id/sharing': Sharing,
  '/sites/:id/saved': Saved,
  '/sites/:id/usage': Usage,
  '/operator': Operator,
};
