// The sign-in through OpenID Connect providers, and the settings of an account's provider.
import type { ComponentType } from 'preact';
import { addMessages } from './core/language';
import parts from './messages/parts';
import messages from './messages/provider';
import { Provider } from './provider/settings';
import { ThroughProvider } from './provider/signin';

addMessages({ ...messages, ...parts });

export const pages: Record<string, ComponentType<any>> = {
  '/sign-in/provider': ThroughProvider,
  '/provider': Provider,
};
