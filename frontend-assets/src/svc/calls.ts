import { event } from './event';
import { pageview } from './pageview';
import { identify } from './send';
import { previous } from './view';

/** Does what one call of svc asks for. Anything that it does not know is left alone. */
export const perform = (call: Call): void => {
  if (call[0] === 'identify') identify(call[1]);
  if (call[0] === 'event' && typeof call[1] === 'string') event(call[1], call[2]);
  if (call[0] === 'pageview') pageview(previous(), 1);
};
