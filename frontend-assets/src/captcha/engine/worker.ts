// captcha-worker.js: the captcha's engines. The widget runs this script in workers, or in the page
// itself where workers are refused.
import type { Port } from './protocol';
import { serverKey } from './protocol';
import { serve } from './serve';

if (self.document) window[serverKey] = serve;
else serve(self as unknown as Port, false);
