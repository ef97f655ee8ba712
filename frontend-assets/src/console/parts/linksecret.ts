// The secret of a mailed link.
import { useEffect, useState } from 'preact/hooks';
import { viewer } from '../core/store';

/** useLinkSecret returns the secret of the mailed link. It stands behind #, so no server logs it. */
export function useLinkSecret(): [secret: string, consumed: () => void] {
  const [secret] = useState(location.hash.slice(1));
  useEffect(() => {
    viewer.set(undefined); // the link may belong to another user than the session
  }, []);
  return [secret, () => history.replaceState(null, '', location.pathname)];
}
