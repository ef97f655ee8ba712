// Next.js 16: save it as proxy.js, with forward.mjs next to it, in the root of the project or in src. Older versions call the file
// middleware.js and the function middleware. docs/owner/first-party.md has the reasons.
//
// `rewrites` in next.config.js does not suffice: it passes the visitors' cookies on.
import { forward } from './forward.mjs';

// Next.js keeps the X-Forwarded-For that visitors send. So a proxy must stand in front of it, which replaces this header or adds
// the visitor's address to its end.
export const proxy = (request) => forward(request, request.headers.get('x-forwarded-for').split(',').pop().trim());

export const config = { matcher: '/x/:path*' };
