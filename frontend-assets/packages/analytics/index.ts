// The public names of @tallygate/analytics. The two modules are separate files of the package, so
// that an app which only sends events does not contain the script.
export { event, identify, pageview } from './calls.js';
export type { Item, Order, Properties, Purchase, SalesEvents } from './calls.js';
export { init } from './init.js';
export type { Settings } from './init.js';
