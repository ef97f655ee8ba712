import { Problem } from './api';
import { page } from './dom';

/**
 * The script's own element. It has to be read while the script first runs: currentScript is empty
 * afterwards, and always in a module, hence the second way.
 */
const current = page.currentScript;
const script = current instanceof HTMLScriptElement ? current : page.querySelector<HTMLScriptElement>('script[src*="/captcha."]');

const own = script && script.src ? new URL(script.src).origin : location.origin;

/**
 * {captcha_url} without a slash at its end: data-api, or where the script itself came from. Throws
 * a Problem.
 */
export const apiOf = (dataApi: string): string => {
  if (!dataApi) {
    // The script is a local file, or part of a page that is one or is sandboxed.
    if (own === 'null') throw new Problem('setup', 'data-api is missing');
    return own;
  }
  try {
    return new URL(dataApi, location.href).href.replace(/\/+$/, '');
  } catch {
    throw new Problem('setup', 'data-api is not an address');
  }
};
