// Where the figures of a report are read: a site of the account, or the site of the shared link that is open.
import type { Operation } from './api';

/**
 * reading returns the operation that reads a part of the report of a site. An empty id stands for the
 * site of a shared link.
 */
export const reading =
  <V extends { id: string }, R>(
    id: string,
    site: Operation<V, { site: { report: R | null } | null }>,
    shared: Operation<Omit<V, 'id'>, { sharedSite: { report: R | null } | null }>,
  ): Operation<Omit<V, 'id'>, { report: R | null }> =>
  async (variables, signal) => {
    const found = id
      ? (await site({ ...variables, id } as V, signal)).site
      : (await shared(variables, signal)).sharedSite;
    return found ?? { report: null };
  };
