import { sendEvent } from './event';
import { sendPageview } from './pageview';
import { identify } from './send';
import { previousAddress } from './view';

/** Executes one call of svc. Unknown calls are ignored. */
export const handleCall = (call: Call): void => {
  if (call[0] === 'identify') identify(call[1]);
  if (call[0] === 'event' && typeof call[1] === 'string') sendEvent(call[1], call[2]);
  if (call[0] === 'pageview') sendPageview(previousAddress(), 1);
};
