// The pages of a site other than its report.
import type { ComponentType } from 'preact';
import { addMessages } from './core/language';
import deliveries from './messages/deliveries';
import menu from './messages/menu';
import parts from './messages/parts';
import progress from './messages/progress';
import messages from './messages/site';
import { DeletedSites } from './site/deleted';
import { Events } from './site/events';
import { Export } from './site/export';
import { Rejections } from './site/rejections';
import { Saved } from './site/saved';
import { Sharing } from './site/sharing';
import { Usage } from './site/usage';
import { Webhooks } from './site/webhooks';

addMessages({ ...messages, ...deliveries, ...menu, ...parts, ...progress });

export const pages: Record<string, ComponentType<any>> = {
  '/sites/:id/events': Events,
  '/sites/:id/rejections': Rejections,
  '/sites/:id/webhooks': Webhooks,
  '/sites/:id/export': Export,
  '/sites/:id/sharing': Sharing,
  '/sites/:id/saved': Saved,
  '/sites/:id/usage': Usage,
  '/deleted': DeletedSites,
};
