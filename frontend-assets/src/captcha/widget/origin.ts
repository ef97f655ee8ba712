import { Problem } from './api';

/**
 * The script's own element. It has to be read while the script first runs: currentScript is empty afterwards, and always in a
 * module, hence the second way. It is not even a script where somebody put an image with the name "currentScript" into the page.
 */
const current = document.currentScript;
const script =
  current instanceof HTMLScriptElement ? current : document.querySelector<HTMLScriptElement>('script[src*="/captcha."]');

const own = script && script.src ? new URL(script.src).origin : location.origin;

/** {captcha_url} without a slash at its end: data-api, or where the script itself came from. Throws a Problem. */
export const apiOf = (dataApi: string | undefined): string => {
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
