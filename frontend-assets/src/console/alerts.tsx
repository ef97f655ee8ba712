// The alert channels of a site and of an account.
import type { ComponentType } from 'preact';
import { AccountAlerts, SiteAlerts } from './alerts/alerts';
import { addMessages } from './core/language';
import messages from './messages/alerts';
import menu from './messages/menu';

addMessages({ ...messages, ...menu });

export const pages: Record<string, ComponentType<any>> = { '/sites/:id/alerts': SiteAlerts, '/alerts': AccountAlerts };
