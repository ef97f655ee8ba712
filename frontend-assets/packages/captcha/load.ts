import { CaptchaError } from './error.js';

/**
 * An element, a CSS selector, or a list of elements, of widgets or of something that contains them.
 */
export type Target = Node | string | Iterable<Node> | ArrayLike<Node> | null;

/**
 * What the widget's script adds to a page, window.serviceCaptcha. Without a target the calls
 * concern all widgets.
 */
export interface Api {
  /** Clears the tokens and solves again. Returns the number of widgets. */
  reset(target?: Target): number;
  /** Returns the first valid token, or an empty string. */
  getResponse(target?: Target): string;
}

/** Scripts that were added by load, by address, so that each is loaded once. */
const scripts = new Map<string, Promise<Api>>();

/**
 * Returns the script's API if the script runs. An element with this id also answers to the name.
 */
export const loaded = (): Api | undefined =>
  typeof window !== 'undefined' && typeof window.serviceCaptcha?.reset === 'function'
    ? window.serviceCaptcha
    : undefined;

/** Returns {captcha_url} as an absolute address without a trailing slash, or throws a TypeError. */
export const baseOf = (url: string): string => {
  const { protocol, href } = new URL(url, location.href);
  if (!url || !/^https?:$/.test(protocol)) throw new TypeError(`@tallygate/captcha: url is no web address: ${url}`);
  return href.replace(/\/+$/, '');
};

/**
 * Waits for a script's element. A script that could not be loaded is removed, so that load may be
 * called again. The page's own tag may have failed before the call, and then fires no further event.
 * Such a tag delays the window's load event, so this event ends the wait, too.
 */
const wait = (script: HTMLScriptElement, src: string): Promise<Api> =>
  new Promise((resolve, reject) => {
    const finish = () => {
      window.removeEventListener('load', finish);
      const api = loaded();
      if (api) {
        resolve(api);
        return;
      }
      scripts.delete(src);
      script.remove();
      reject(new CaptchaError('unreachable'));
    };
    script.addEventListener('load', finish);
    script.addEventListener('error', finish);
    if (document.readyState !== 'complete') window.addEventListener('load', finish);
  });

/**
 * Loads the widget's script from {captcha_url}, once, unless it runs already or the page has its
 * tag. A page whose policy names nonces passes its nonce. Rejects with a CaptchaError if the script
 * cannot be loaded.
 */
export const load = async (url: string, nonce?: string): Promise<Api> => {
  const api = loaded();
  if (api) return api;

  const src = baseOf(url) + '/captcha.js';
  let script = scripts.get(src);
  if (!script) {
    // After the page's load event a tag without a widget has failed, or was added late. A second
    // element is right in both cases, because a second widget script does nothing.
    const isComplete = document.readyState === 'complete';
    const tag = isComplete ? undefined : Array.from(document.scripts).find((each) => each.src === src);
    const element = tag || document.createElement('script');
    if (!tag) {
      element.src = src; // throws where the page requires Trusted Types
      if (nonce) element.nonce = nonce;
    }
    scripts.set(src, (script = wait(element, src)));
    if (!tag) document.head.append(element);
  }
  return script;
};
