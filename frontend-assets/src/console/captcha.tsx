// The pages of sitekeys.
import type { ComponentType } from 'preact';
import { SitekeyPage } from './captcha/page';
import { NewSitekey, Sitekeys } from './captcha/sitekeys';
import { addMessages } from './core/language';
import messages from './messages/captcha';
import parts from './messages/parts';

addMessages({ ...messages, ...parts });

export const pages: Record<string, ComponentType<any>> = {
  '/captcha': Sitekeys,
  '/captcha/new': NewSitekey,
  '/captcha/:id': SitekeyPage,
};
