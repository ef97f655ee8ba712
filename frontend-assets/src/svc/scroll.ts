import { depth } from './engagement';
import { sendEvent } from './event';
import { listen } from './guard';
import { currentView } from './view';
import { auto } from './tag';

/** Tracks the scroll depth, and sends the scroll event once per page view when it reaches 90 %. */
export const watchScroll = (): void => {
  let reported: unknown;
  listen(document, 'scroll', (scrolled: Event) => {
    // The events of scrolling boxes within the page arrive here too.
    if (scrolled.target !== document) return;
    if (depth() < 90 || reported === currentView || !auto) return;
    reported = currentView;
    sendEvent('scroll', { percent: 90 });
  });
};
