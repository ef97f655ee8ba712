// State that outlives a page: who is signed in. The URL holds everything else.
import { useEffect, useState } from 'preact/hooks';
import type { ViewerFields } from '../operations';

/** Store holds a value. A change renders its readers again. */
export interface Store<T> {
  get(): T;
  set(value: T): void;
  use(): T;
}

export function store<T>(value: T): Store<T> {
  const readers = new Set<(value: T) => void>();
  return {
    get: () => value,
    set(next) {
      value = next;
      readers.forEach((read) => read(next));
    },
    use() {
      const [seen, setSeen] = useState(value);
      useEffect(() => {
        setSeen(value); // it may have changed between rendering and this effect
        readers.add(setSeen);
        return () => void readers.delete(setSeen);
      }, []);
      return seen;
    },
  };
}

/** viewer is the signed-in user: undefined until the first answer, null without a session. */
export const viewer = store<ViewerFields | null | undefined>(undefined);

/** status is announced to screen readers and shown at the lower edge for a few seconds. */
export const status = store('');

let hide: ReturnType<typeof setTimeout> | undefined;

/** announce shows a short message, such as "Saved". */
export function announce(text: string): void {
  status.set(text);
  clearTimeout(hide);
  hide = setTimeout(() => status.set(''), 6000);
}

/** PageKey is a shortcut of the current page: the key, its text in the list, and its function. */
export type PageKey = [key: string, text: string, run: () => void];

/** pageKeys are the shortcuts of the current page, which the page sets and removes. */
export const pageKeys = store<PageKey[]>([]);

/** chosenAccount returns the id of the account that the address chooses; null is the default account. */
export const chosenAccount = (): string | null => new URLSearchParams(location.search).get('account');

/** accountOf returns the chosen account of the user. */
export const accountOf = (user: ViewerFields | null | undefined) =>
  user?.accounts.find((account) => account.id === chosenAccount()) ?? user?.accounts[0];

/** roleOf returns the user's role in the chosen account. */
const roleOf = (user: ViewerFields | null | undefined): string | null | undefined => accountOf(user)?.viewerRole;

/** isGuest reports whether the user reaches only some sites of the chosen account. */
export const isGuest = (user = viewer.get()): boolean => !!accountOf(user)?.viewerIsGuest;

/** mayEdit reports whether the user may create and configure sites and sitekeys of the chosen account. */
export const mayEdit = (user = viewer.get()): boolean => !!user && roleOf(user) !== 'VIEWER';

/** isOwner reports whether the user may manage members of the chosen account, and delete. */
export const isOwner = (user = viewer.get()): boolean => roleOf(user) === 'OWNER';
