// The pages about the account and a user's own safety that few people open, which are loaded on demand, and
// the second step of signing in.
import { AuditLog } from './account/audit';
import { Security } from './account/security';
import { addMessages, type ComponentType } from './core';
import messages from './messages/account';

addMessages(messages);

export { byPasskey, SecondFactor } from './account/proof';

export const pages: Record<string, ComponentType<any>> = {
  '/audit': AuditLog,
  '/security': Security,
};
