import { queryParameter } from './address';
import { sendEvent } from './event';
import { auto, search } from './tag';

/** Sends the site search term in the page's address, if the tag has data-search. */
export const reportSearch = (): void => {
  if (!search || !auto) return;
  const term = 'q s search query keyword'.split(' ').map(queryParameter).find(Boolean);
  if (term) sendEvent('site_search', { term: [...term].slice(0, 100).join('') });
};
