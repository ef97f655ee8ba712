// Vercel's Routing Middleware: save it as middleware.js, and forward.mjs next to it, in the root of the project. Projects with
// Next.js use next.mjs.
import { forward } from './forward.mjs';

// Vercel sets this header itself, whatever the visitor sends.
export default (request) => forward(request, request.headers.get('x-real-ip'));

export const config = { matcher: '/x/:path*' };
