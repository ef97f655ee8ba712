// Where the figures of a report are read: a site of the account, or the site of the shared link that is open.
import type { Operation } from './api';

/** link is what the shared link that is open leaves out. */
export const link = { hidesRevenue: false };

/**
 * reading returns the operation that reads a part of the report of a site. An empty id stands for the
 * site of a shared link.
 */
export const reading =
  <V extends { id: string }, S extends { report: object | null }>(
    id: string,
    site: Operation<V, { site: S | null }>,
    shared: Operation<Omit<V, 'id'>, { sharedSite: S | null }>,
  ): Operation<Omit<V, 'id'>, S | { report: null }> =>
  async (variables, signal) => {
    const found = id
      ? (await site({ ...variables, id } as V, signal)).site
      : (await shared(variables, signal)).sharedSite;
    return found ?? { report: null };
  };
