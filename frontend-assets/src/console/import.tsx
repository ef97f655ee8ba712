// The import of another service's figures.
import type { ComponentType } from 'preact';
import { addMessages } from './core/language';
import { Import } from './import/import';
import messages from './messages/import';

addMessages(messages);

export const pages: Record<string, ComponentType<any>> = { '/sites/:id/import': Import };
