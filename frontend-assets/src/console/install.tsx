// New sites, and the steps until they count.
import type { ComponentType } from 'preact';
import { addMessages } from './core/language';
import { Install, NewSite } from './install/install';
import messages from './messages/install';
import menu from './messages/menu';
import parts from './messages/parts';

addMessages({ ...messages, ...menu, ...parts });

export const pages: Record<string, ComponentType<any>> = { '/sites/new': NewSite, '/sites/:id/install': Install };
