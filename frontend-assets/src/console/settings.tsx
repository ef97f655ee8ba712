// The settings of a site.
import type { ComponentType } from 'preact';
import { addMessages } from './core/language';
import menu from './messages/menu';
import parts from './messages/parts';
import messages from './messages/settings';
import { Advanced } from './settings/advanced';
import { Exclusions } from './settings/exclusions';
import { General } from './settings/general';
import { Measurement } from './settings/measurement';

addMessages({ ...messages, ...menu, ...parts });

export const pages: Record<string, ComponentType<any>> = {
  '/sites/:id/settings': General,
  '/sites/:id/measurement': Measurement,
  '/sites/:id/exclusions': Exclusions,
  '/sites/:id/advanced': Advanced,
};
