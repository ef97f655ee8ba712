// The captcha's widget: makes a proof-of-work captcha of every element with the class
// service-captcha. docs/captcha.md says how pages use it.
import { getResponse, keep, reset } from './widget/page';

const loaded: unique symbol = Symbol.for('service-captcha') as never;

declare global {
  interface Window {
    [loaded]?: true;
  }
}

// A second copy of the script leaves at once.
if (!window[loaded]) {
  window[loaded] = true;
  window.serviceCaptcha = { reset, getResponse };
  keep();
}
