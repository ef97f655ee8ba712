import { send } from './send';

/**
 * Sends an event of the current page view. When its properties are too large for one message, or
 * cannot be written as JSON, it goes without the list of items, so that a sale still counts; or
 * else without any.
 */
export const event = (name: string, properties?: unknown): void => {
  const all = properties && typeof properties === 'object' ? properties : undefined;
  [all, { ...all, items: undefined }, undefined].some((m) => send({ t: 'event', e: name, m }));
};
