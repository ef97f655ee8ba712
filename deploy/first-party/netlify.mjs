// A Netlify Edge Function: put it and forward.mjs into netlify/edge-functions.
import { forward } from './forward.mjs';

export default (request, context) => forward(request, context.ip);

export const config = { path: '/x/*' };
