// A Cloudflare Worker. Give it the route shop.example.com/x/* of your zone.
import { forward } from './forward.mjs';

export default { fetch: (request) => forward(request, request.headers.get('cf-connecting-ip')) };
