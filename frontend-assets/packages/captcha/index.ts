// The public names of @tallygate/captcha. The widget itself comes from {captcha_url}, so that it
// always fits the server.
export { CaptchaError } from './error.js';
export type { Reason } from './error.js';
export { load } from './load.js';
export type { Api, Target } from './load.js';
export { execute, render } from './widget.js';
export type { Captcha, Options, Settings } from './widget.js';
