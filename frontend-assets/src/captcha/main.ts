// The captcha's widget: makes a proof-of-work captcha of every element with the class service-captcha. docs/captcha.md says how
// pages use it.
import { keep, reset } from './widget/page';

// A second copy of the script leaves at once.
if (!window.serviceCaptcha) {
  window.serviceCaptcha = { reset };
  keep();
}
