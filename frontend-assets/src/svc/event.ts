import { current } from './pageview';
import { send } from './send';

/** Sends an event of the current page view. Properties of more than 4 KB would only push the message over its limit. */
export const event = (name: string, properties?: unknown): void => {
  const fits = properties && typeof properties === 'object' && new Blob([JSON.stringify(properties)]).size <= 4096;
  send(current, { t: 'event', e: name, m: fits ? properties : undefined });
};
