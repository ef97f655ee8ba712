// The URL is the console's state: path, query and fragment. Pages read it with useURL and change it with go.
import { useEffect, useState } from 'preact/hooks';
import { chosenAccount, viewer } from './store';

const readers = new Set<() => void>();
let changes = 0;
let shown = location.href;

const changed = (): void => {
  changes++;
  shown = location.href;
  readers.forEach((read) => read());
};

/** hasNavigated reports whether the address has changed since the console was loaded. */
export const hasNavigated = (): boolean => changes > 0;

/** These parameters choose the period of a report. */
const period = ['period', 'from', 'to', 'compare', 'dates'];

/** keepPeriod adds the period of the current address to another page of the same site, which has none. */
function keepPeriod({ pathname, searchParams }: URL): void {
  const site = /^.sites.[^/]+/.exec(location.pathname)?.[0];
  const isOther = pathname !== location.pathname && site === /^.sites.[^/]+/.exec(pathname)?.[0];
  if (!site || !isOther || period.some((name) => searchParams.has(name))) return;

  for (const [name, value] of new URLSearchParams(location.search)) {
    if (period.includes(name)) searchParams.set(name, value);
  }
}

/** guard asks before a page with unsaved changes is left, and reports whether it does. It calls leave if the user agrees. */
let guard: ((leave: () => void) => boolean) | undefined;

/** guardLeaving sets the guard of the page, or removes it. */
export const guardLeaving = (by?: typeof guard): void => void (guard = by);

/** isAsked reports whether the user is asked first, who leaves the page then or not. */
export const isAsked = (leave: () => void): boolean => !!guard?.(leave);

/**
 * go shows another address of the console, as a new entry of the history unless replace is set. The chosen
 * account stays chosen, and on the pages of a site the period of its report.
 */
export function go(address: string, replace = false): void {
  if (!replace && isAsked(() => go(address))) return;
  const url = new URL(address, location.href);
  keepPeriod(url);
  const account = chosenAccount();
  if (account && viewer.get() && !url.searchParams.has('account')) url.searchParams.set('account', account);
  url.search ||= ''; // without a lone "?"
  history[replace ? 'replaceState' : 'pushState'](null, '', url);
  changed();
}

/** useURL returns the current address and renders the component again when it changes. */
export function useURL(): URL {
  const [address, set] = useState(location.href);
  useEffect(() => {
    const read = (): void => set(location.href);
    read(); // an effect of the page itself, which runs first, may have changed it
    readers.add(read);
    return () => void readers.delete(read);
  }, []);
  return new URL(address);
}

/** setQuery changes parameters of the current address; an empty value removes one. */
export function setQuery(values: Record<string, string>): void {
  const url = new URL(location.href);
  for (const [name, value] of Object.entries(values)) {
    if (value) url.searchParams.set(name, value);
    else url.searchParams.delete(name);
  }
  go(url.href, true);
}

/** follow turns clicks on links to the console's own pages into history entries without a reload. */
export function follow(isPage: (path: string) => boolean): void {
  addEventListener('popstate', () => {
    // The browser has left the address of the page already.
    if (isAsked(() => history.back())) history.pushState(null, '', shown);
    else changed();
  });
  addEventListener('click', (event) => {
    const modified = event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey;
    const link = event.target instanceof Element ? event.target.closest('a') : null;
    if (event.defaultPrevented || modified || !link || link.target || link.hasAttribute('download')) return;

    const url = new URL(link.href, location.href);
    if (url.origin !== location.origin || !isPage(url.pathname)) return;

    event.preventDefault();
    if (url.href !== location.href) go(url.pathname + url.search + url.hash);
  });
}
