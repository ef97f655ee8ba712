// The import of another service's figures.
import type { ComponentType } from 'preact';
import { addMessages } from './core/language';
import { Import } from './import/import';
import messages from './messages/import';
import menu from './messages/menu';

addMessages({ ...messages, ...menu });

export const pages: Record<string, ComponentType<any>> = { '/sites/:id/import': Import };
