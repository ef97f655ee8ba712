import { Problem } from './api';
import { page } from './dom';

/**
 * The script's own element. It is read while the script first runs, because currentScript is empty
 * afterwards. In a module it is always empty, and where a loader evaluates the script's text it is the
 * loader, so the element is then found by the end of its path. Under another name it is the current
 * script.
 */
const current = page.currentScript as HTMLScriptElement | null;
const script =
  [current, ...page.scripts].find((each) => /^[^?#]*\/captcha\.js([?#]|$)/.test((each && each.src)!)) || current;

/**
 * The script's address, or the page's origin for a script without an address on the web, such as a
 * blob. It is read while the script first runs, because a relative src would follow the page's later
 * addresses.
 */
const base = script && /^http/.test(script.src) ? script.src : location.origin;

/**
 * Returns {captcha_url} without a trailing slash: data-api, or the folder of the script. It throws a
 * Problem if there is neither.
 */
export const apiOf = (dataApi: string): string => {
  try {
    return new URL(dataApi || '.', dataApi ? location.href : base).href.replace(/\/+$/, '');
  } catch {
    // The origin is "null" where the script is a local file, or inline in a page that is local or
    // sandboxed.
    throw new Problem('setup', 'data-api is ' + (dataApi ? 'no address' : 'missing'));
  }
};
