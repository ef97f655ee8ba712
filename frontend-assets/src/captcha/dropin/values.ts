// What a page states: parameters of render(), and names of functions.

/** Parameters of render(), by the names of the data attributes without their prefix. */
export type Given = { readonly [name: string]: unknown };

/** Calls the function that a page states as such or by its name, which may have dots, if there is one. */
export const callBack = (stated: unknown, value?: unknown): void => {
  const found: unknown =
    typeof stated === 'string' ? stated.split('.').reduce<any>((inner, name) => inner && inner[name], window) : stated;
  if (typeof found === 'function') found(value);
};
