// The audit log of an account. It has its German texts with it, which other pages do not need.
import type { ComponentType } from 'preact';
import { AuditLog } from './audit/audit';
import { addMessages, language } from './core/language';
import messages from './messages/audit';
import german from './messages/de-audit';
import parts from './messages/parts';

addMessages({ ...(language() === 'de' ? german : messages), ...parts });

export const pages: Record<string, ComponentType<any>> = { '/audit': AuditLog };
