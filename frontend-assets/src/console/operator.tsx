// The operator's page.
import type { ComponentType } from 'preact';
import { addMessages } from './core/language';
import messages from './messages/operator';
import { Operator } from './operator/operator';

addMessages(messages);

export const pages: Record<string, ComponentType<any>> = { '/operator': Operator };
