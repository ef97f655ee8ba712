// Checked by the types only: faces/tag.ts and the module that it replaces have the same exports.
import type * as original from '../svc/tag';
import * as tag from './tag';

export const same: { [Name in keyof typeof original]: (typeof original)[Name] } = tag;
