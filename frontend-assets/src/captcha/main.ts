// The captcha's widget: makes a proof-of-work captcha of every element with the class
// service-captcha. docs/owner/captcha.md describes how pages use it.
import { getResponse, reset, watchPage } from './widget/page';

const loaded: unique symbol = Symbol.for('service-captcha') as never;

declare global {
  interface Window {
    [loaded]?: true;
  }
}

// A second copy of the script does nothing.
if (!window[loaded]) {
  window[loaded] = true;
  window.serviceCaptcha = { reset, getResponse };
  watchPage();
}
