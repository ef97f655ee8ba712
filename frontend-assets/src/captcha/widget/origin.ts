import { Problem } from './api';
import { page } from './dom';

/**
 * The script's own element. It is read while the script first runs, because currentScript is empty
 * afterwards. In a module it is always empty, so the element is then found by its address.
 */
const current = page.currentScript;
const script =
  current instanceof HTMLScriptElement ? current : page.querySelector<HTMLScriptElement>('script[src*="/captcha."]');

const scriptOrigin = script && script.src ? new URL(script.src).origin : location.origin;

/**
 * Returns {captcha_url} without a trailing slash: data-api, or the script's own origin. It throws a
 * Problem if there is neither.
 */
export const apiOf = (dataApi: string): string => {
  if (!dataApi) {
    // The script is a local file, or inline in a page that is local or sandboxed.
    if (scriptOrigin === 'null') throw new Problem('setup', 'data-api is missing');
    return scriptOrigin;
  }
  try {
    return new URL(dataApi, location.href).href.replace(/\/+$/, '');
  } catch {
    throw new Problem('setup', 'data-api is not an address');
  }
};
