/**
 * Why there is no token: the server cannot be reached, it refused too many attempts, sitekey or
 * domain are wrong, it refused the solution, or the browser cannot do the work.
 */
export type Reason = 'unreachable' | 'busy' | 'setup' | 'refused' | 'unsupported';

/** A failure of load or execute. The reason is removed if the widget was removed meanwhile. */
export class CaptchaError extends Error {
  readonly reason: Reason | 'removed';

  constructor(reason: Reason | 'removed') {
    super('@tallygate/captcha: ' + reason);
    this.name = 'CaptchaError';
    this.reason = reason;
  }
}
