import { CaptchaError } from './error.js';
import type { Captcha } from './widget.js';

/** What a component offers to its parent. */
export type CaptchaHandle = Pick<Captcha, 'execute' | 'getResponse' | 'reset'>;

/** Returns the handle of a component, which has a widget while it is mounted. */
export const handleOf = (widget: () => Captcha | undefined): CaptchaHandle => ({
  execute: async () => {
    const mounted = widget();
    if (!mounted) throw new CaptchaError('removed');
    return mounted.execute();
  },
  getResponse: () => widget()?.getResponse() ?? '',
  reset: () => widget()?.reset(),
});
