// What a page states: parameters of render(), data attributes, and the address of the script.

/** Parameters of render(), by the names of the data attributes without their prefix. */
export type Given = { readonly [name: string]: unknown };

/** Returns {captcha_url} from a script's address: what stands before the path that the captcha has. */
export const baseOf = (address: URL, path: string): string => {
  const whole = address.origin + address.pathname;
  return whole.slice(0, whole.lastIndexOf(path));
};

/** Calls the function that a page states as such or by its name, which may have dots, if there is one. */
export const callBack = (stated: unknown, value?: unknown): void => {
  let found = stated;
  if (typeof stated === 'string') {
    found = stated.split('.').reduce<any>((inner, name) => inner && inner[name], window);
  }
  if (typeof found === 'function') found(value);
};
