import { event } from './event';
import { pageview, previous } from './pageview';
import { identify } from './send';

/** Does what one call of svc asks for. Anything that it does not know is left alone. */
export const perform = (call: Call): void => {
  const what = call[0];
  const first = call[1];
  if (what === 'identify') identify(first);
  if (what === 'event' && typeof first === 'string') event(first, call[2]);
  if (what === 'pageview') pageview(previous(), 1);
};
