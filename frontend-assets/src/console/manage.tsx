// Pages that are loaded on demand: about a site's reports, their readers, mails and usage, and the operator's.
import { addMessages, type ComponentType } from './core';
import { Operator } from './manage/operator';
import { Saved } from './manage/saved';
import { Sharing } from './manage/sharing';
import { StopMail } from './manage/stopmail';
import { Usage } from './manage/usage';
import messages from './messages/manage';

addMessages(messages);

export const pages: Record<string, ComponentType<any>> = {
  '/sites/:id/sharing': Sharing,
  '/sites/:id/saved': Saved,
  '/sites/:id/usage': Usage,
  '/operator': Operator,
  '/stop-mail': StopMail,
};
