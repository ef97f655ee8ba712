// Functions for all pages of unauthenticated callers.
import { useEffect, useState } from 'preact/hooks';
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

/** useLinkSecret returns the secret of the mailed link. It stands behind #, so no server logs it. */
export function useLinkSecret(): [secret: string, consumed: () => void] {
  const [secret] = useState(location.hash.slice(1));
  useEffect(() => {
    viewer.set(undefined); // the link may belong to another user than the session
  }, []);
  return [secret, () => history.replaceState(null, '', location.pathname)];
}
