import { depth } from './engagement';
import { event } from './event';
import { listen } from './guard';
import { current } from './view';
import { auto } from './tag';

/**
 * Follows the scroll depth, and reports the automatic event once per page view when it reaches 90
 * %.
 */
export const watchScroll = (): void => {
  let reported: unknown;
  listen(document, 'scroll', (scrolled: Event) => {
    // Boxes that scroll inside of the page arrive here too.
    if (scrolled.target !== document) return;
    if (depth() < 90 || reported === current || !auto) return;
    reported = current;
    event('scroll', { percent: 90 });
  });
};
