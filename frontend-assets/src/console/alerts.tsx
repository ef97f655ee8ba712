// The alert channels of a site and of an account.
import type { ComponentType } from 'preact';
import { AccountAlerts, SiteAlerts } from './alerts/alerts';
import { addMessages } from './core/language';
import messages from './messages/alerts';
import deliveries from './messages/deliveries';
import menu from './messages/menu';
import parts from './messages/parts';

addMessages({ ...messages, ...deliveries, ...menu, ...parts });

export const pages: Record<string, ComponentType<any>> = { '/sites/:id/alerts': SiteAlerts, '/alerts': AccountAlerts };
