// Takes the place of src/svc/tag.ts in the package: the settings come from init, not from a tag. A
// test of types checks that both modules have the same exports.
import type { Settings } from './init';

export let siteKey: string | undefined;
export let auto = true;
export let search = false;
export let debug = false;

export let endpoint = '';

/** Applies the settings. If one is wrong, it returns the reason and changes nothing. */
export const configure = (settings: Settings): string | undefined => {
  const { site, url } = Object(settings) as Partial<Settings>;
  if (!/^[\da-f]{32}$/.test(String(site))) return 'site is no site key: 32 hexadecimal characters in lower case';

  let address: URL;
  try {
    address = new URL(String(url || '').replace(/\/*$/, '/') + 'collect.php', location.href);
  } catch {
    return 'url is no address';
  }
  if (!url || !/^https?:$/.test(address.protocol)) return 'url is no web address';

  siteKey = site;
  endpoint = address.href;
  auto = settings.auto !== false;
  search = settings.search === true;
  debug = /[?&]svc_debug\b/.test(location.search);
  return undefined;
};
