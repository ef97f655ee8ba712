// Reading data for a page.
import { useEffect, useRef, useState } from 'preact/hooks';
import { Failure, isFramed, type Operation } from './api';
import { go } from './router';
import { chosenAccount, viewer } from './store';
import type { ViewerFields } from '../operations';

/** Query is the state of a page's data. Data of an earlier answer stays while a newer answer is loaded or fails. */
export interface Query<D> {
  data: D | undefined;
  error: Failure | undefined;
  /** The failure of a part of the data, which is null. Only with the option keep. */
  part: Failure | undefined;
  /** Whether the data belongs to earlier variables. Only with the option keep. */
  busy: boolean;
  /** Loads again and resolves when the answer is shown. */
  reload(): Promise<void>;
  /** Replaces the data without a request, for example with the result of a mutation. */
  set(data: D): void;
}

/** toSignIn leads to the sign-in page and back to this page afterwards. A shared link has no sign-in. */
export function toSignIn(): void {
  // The page opens its link again, for a new token.
  if (location.pathname === '/share' || isFramed) return location.reload();

  viewer.set(null);
  const here = location.pathname + location.search;
  go('/sign-in' + (here === '/' ? '' : '?next=' + encodeURIComponent(here)), true);
}

/** openLast opens the account that the user has last chosen, if "/" chooses none, and reports whether it does. */
function openLast({ account, lastAccount }: ViewerFields): boolean {
  const other = !!lastAccount && lastAccount.id !== account.id && location.pathname === '/' && !chosenAccount();
  if (other) go('/?account=' + lastAccount.id, true);
  return other;
}

const settled = 250; // milliseconds without a change

/**
 * useQuery loads data when the page appears and whenever the variables change. An answer that names the
 * viewer updates the header; without a session it leads to the sign-in page. With keep, earlier data stays
 * until the answer, also of other variables, and a failed answer is reported as the failure of a part.
 */
export function useQuery<V extends object, D extends object>(
  load: Operation<V, D>,
  variables: V,
  keep = false,
): Query<D> {
  const [state, setState] = useState<{ data?: D; error?: Failure; part?: Failure; key: string }>({ key: '' });
  const key = JSON.stringify(variables);
  const latest = useRef<AbortController | undefined>(undefined);
  const asked = useRef(0);

  const reload = async (): Promise<void> => {
    latest.current?.abort();
    const stop = (latest.current = new AbortController());
    let part: Failure | undefined;
    try {
      const data = await load(variables, stop.signal, keep ? (failure) => (part = failure) : undefined);
      if (stop.signal.aborted) return;

      if ('viewer' in data) {
        viewer.set(data.viewer as never);
        if (!data.viewer) return toSignIn();
        if (openLast(data.viewer as never)) return;
      }

      setState({ data, key, ...(part && { part }) });
    } catch (error) {
      if (stop.signal.aborted) return;
      const failure = error instanceof Failure ? error : new Failure('INTERNAL', String(error));
      if (failure.code === 'UNAUTHENTICATED') return toSignIn();
      if (failure.code === 'SECOND_FACTOR_REQUIRED') return go('/security', true);
      setState((before) => {
        if (keep && before.data) return { data: before.data, part: failure, key };
        return { ...(before.key === key && before.data ? { data: before.data } : {}), error: failure, key };
      });
    }
  };

  useEffect(() => {
    // Of quick changes only the last is asked for, because each question costs the account's budget. A module,
    // whose loader takes no signal, costs nothing.
    const wait = load.length > 1 && Date.now() - asked.current < settled ? settled : 0;
    asked.current = Date.now();
    const timer = wait ? setTimeout(reload, wait) : void reload();
    return () => {
      clearTimeout(timer);
      latest.current?.abort();
    };
  }, [key]);

  const current = state.key === key ? state : undefined;
  return {
    data: keep ? state.data : current?.data,
    error: current?.error,
    part: current?.part,
    busy: !current,
    reload,
    set: (data) => setState({ data, key }),
  };
}

/** usePolling calls a function repeatedly while the page is visible. It waits for each call to end. */
export function usePolling(call: () => Promise<unknown>, everyMilliseconds: number): void {
  const latest = useRef(call);
  latest.current = call;

  useEffect(() => {
    if (!everyMilliseconds) return undefined;

    let timer: ReturnType<typeof setTimeout> | undefined;
    let stopped = false;
    const next = (): void => {
      timer = setTimeout(async () => {
        if (document.visibilityState === 'visible') await latest.current();
        if (!stopped) next();
      }, everyMilliseconds);
    };

    next();
    return () => {
      stopped = true;
      clearTimeout(timer);
    };
  }, [everyMilliseconds]);
}
