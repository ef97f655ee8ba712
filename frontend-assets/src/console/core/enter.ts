// Functions for all pages of unauthenticated callers.
import type { UserError } from './api';
import { safeNext } from './path';
import { go } from './router';
import { viewer } from './store';
import type { ViewerFields } from '../operations';

interface Entered {
  viewer: ViewerFields | null;
  userErrors: UserError[];
}

/** enter shows the page that the user wanted, once signed in. */
export function enter(payload: Entered | null): UserError[] {
  if (!payload?.viewer) return payload?.userErrors ?? [];
  viewer.set(payload.viewer);
  go(safeNext(new URLSearchParams(location.search).get('next')), true);
  return [];
}
