// captcha-worker.js: the captcha's engines. The widget runs it in workers, or in the page itself
// where workers are refused.
import type { Port } from './protocol';
import { server } from './protocol';
import { serve } from './serve';

if (self.document) window[server] = serve;
else serve(self as unknown as Port, false);
