// Takes the place of src/svc/tag.ts in the faces: the settings come from another product's tag and
// calls. A check of types compares the exports of both modules.

/**
 * Returns the script's own element. It is called while the script first runs, because currentScript
 * is empty afterwards; in a module it is always empty, and where a loader evaluates the script's
 * text it is the loader.
 */
export const findTag = (isOurs: (script: HTMLScriptElement) => unknown): HTMLScriptElement | undefined =>
  [document.currentScript, ...document.querySelectorAll('script')].find(
    (each) => each instanceof HTMLScriptElement && isOurs(each),
  ) as HTMLScriptElement | undefined;

/** The site key. Without it the server takes the key from the path of the call. */
export let siteKey: string | undefined;

export let auto = true;

export let search = false;

export const debug = /[?&]svc_debug\b/.test(location.search);

export let endpoint = '';

/** Returns the address up to the site key in its path, or nothing. */
export const keyFolder = (address: string): string | undefined => (/.*\/[\da-f]{32}(?=\/)/.exec(address) || [])[0];

/** Sets the address of calls. */
export const callAt = (address: string): void => {
  endpoint = new URL(address, location.href).href;
};

/**
 * Reads the settings that all faces share: our own attributes, and the site key from the first of
 * the texts that is one. Hyphens are ignored, because some forms accept a UUID only. A key in the
 * path of the calls comes first: then the texts are the other product's ids.
 */
export const readTag = (tag: HTMLScriptElement | undefined, ...keys: unknown[]): void => {
  const settings = tag ? tag.dataset : {};
  auto = settings.auto !== 'off';
  search = 'search' in settings;
  siteKey = keyFolder(endpoint)
    ? undefined
    : keys.map((key) => String(key).replace(/[\s-]/g, '').toLowerCase()).find((key) => /^[\da-f]{32}$/.test(key));
};
