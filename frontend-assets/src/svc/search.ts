import { parameter } from './address';
import { event } from './event';
import { auto, search } from './tag';

/** Reports the site search that the page shows the result of, when the tag asks for it. */
export const reportSearch = (): void => {
  if (!search || !auto) return;
  const term = 'q s search query keyword'.split(' ').map(parameter).find(Boolean);
  if (term) event('site_search', { term: [...term].slice(0, 100).join('') });
};
