import { send } from './send';

/**
 * Sends an event of the current page view. If its properties are too large for one message or
 * cannot be encoded as JSON, the event is sent without the list of items, so that a sale still
 * counts. If that fails too, it is sent without properties.
 */
export const sendEvent = (name: string, properties?: unknown): void => {
  const all = Object(properties) === properties ? (properties as object) : undefined;
  [all, { ...all, items: undefined }, undefined].some((m) => send({ t: 'event', e: name, m }));
};
