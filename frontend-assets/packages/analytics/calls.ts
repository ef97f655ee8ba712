// Typed calls of the browser function svc, whichever provides it: init, or the script's tag.

/** An item that is viewed, added to the cart, or sold. */
export interface Item {
  item_id: string;
  item_name?: string;
  price?: number;
  quantity?: number;
}

/** Properties of a checkout. */
export interface Order {
  value: number;
  /** Three letters of ISO 4217, such as EUR. */
  currency: string;
  items?: Item[];
}

/** Properties of a purchase or refund. The server stores each transaction_id once. */
export interface Purchase extends Order {
  transaction_id: string;
}

/** The e-commerce events with their properties. The site must measure e-commerce. */
export interface SalesEvents {
  view_item: Item;
  add_to_cart: Item;
  begin_checkout: Order;
  purchase: Purchase;
  refund: Purchase;
}

/**
 * The arguments after the name of an event: the properties, which only e-commerce events require.
 */
export type Properties<Name extends string> = Name extends keyof SalesEvents
  ? [properties: SalesEvents[Name]]
  : [properties?: object];

/**
 * Calls svc, or queues the call until the script runs. Does nothing on a server, where a queue
 * would mix the calls of all visitors.
 */
const call: (...values: unknown[]) => void = (...values) => {
  if (typeof window === 'undefined') return;
  // An element with this id also answers to the name.
  if (typeof window.svc !== 'function') {
    const stub: Svc = (...values) => void (stub.q ||= []).push(values);
    window.svc = stub;
  }
  window.svc(...values);
};

/**
 * Sends an event of the current page view. A name of one's own must be registered in the site's
 * settings.
 */
export const event: <Name extends string>(name: Name, ...properties: Properties<Name>) => void = (
  name,
  ...properties
) => call('event', name, ...properties);

/**
 * Sends a page view of the current path, for routers without the history API and under auto: false.
 * Ignored within one second of an automatic page view of the same path.
 */
export const pageview: () => void = () => call('pageview');

/**
 * Sets the pseudonymous user id of all later messages: a SHA-256 as 64 hexadecimal characters. Any
 * other value clears it and is not sent. Call it before init to include the first page view.
 */
export const identify: (hash: string | null) => void = (hash) => call('identify', hash);
