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
 * called again.
 */
const wait = (script: HTMLScriptElement, src: string): Promise<Api> =>
  new Promise((resolve, reject) => {
    const fail = () => {
      scripts.delete(src);
      script.remove();
      reject(new CaptchaError('unreachable'));
    };
    const finish = () => {
      const api = loaded();
      if (api) resolve(api);
      else fail();
    };
    script.addEventListener('load', finish);
    script.addEventListener('error', fail);
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
    const tag = Array.from(document.scripts).find((each) => each.src === src);
    const element = tag || document.createElement('script');
    scripts.set(src, (script = wait(element, src)));
    if (!tag) {
      element.src = src;
      if (nonce) element.nonce = nonce;
      document.head.append(element);
    }
  }
  return script;
};
