// The list of many sites.
export { Lines } from './lines/lines';
