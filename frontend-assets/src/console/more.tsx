// The pages that are loaded on demand, by the patterns of main.tsx.
import { addMessages, type ComponentType } from './core';
import messages from './messages/more';
import { AcceptInvitation, Account, ConfirmEmail, Members, Sessions } from './more/people';
import { Tokens } from './more/tokens';
import { NewSitekey, SitekeyPage, Sitekeys } from './more/captcha';
import { DeletedSites } from './more/deleted';
import { Events } from './more/events';
import { Export } from './more/export';
import { Install, NewSite } from './more/install';
import { Rejections } from './more/rejections';
import { Settings } from './more/settings';
import { Webhooks } from './more/webhooks';

addMessages(messages);

export const pages: Record<string, ComponentType<any>> = {
  '/sites/new': NewSite,
  '/sites/:id/install': Install,
  '/sites/:id/events': Events,
  '/sites/:id/rejections': Rejections,
  '/sites/:id/webhooks': Webhooks,
  '/sites/:id/export': Export,
  '/sites/:id/settings': Settings,
  '/deleted': DeletedSites,
  '/captcha': Sitekeys,
  '/captcha/new': NewSitekey,
  '/captcha/:id': SitekeyPage,
  '/account': Account,
  '/members': Members,
  '/tokens': Tokens,
  '/accept-invitation': AcceptInvitation,
  '/confirm-email': ConfirmEmail,
  '/sessions': Sessions,
};
