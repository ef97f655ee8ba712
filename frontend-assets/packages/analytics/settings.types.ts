// Checked by the types only: settings.ts and the module that it replaces have the same exports.
import type * as tag from '../../src/svc/tag';
import * as settings from './settings';

export const same: { [Name in keyof typeof tag]: (typeof tag)[Name] } = settings;
