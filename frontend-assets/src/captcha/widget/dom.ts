/**
 * Returns a view of a node that ignores the names a page gives to its elements. Without it, a field
 * named "append" hides the form's own method, and an image named "head" hides the document's
 * property. Properties come from the node's prototypes, and methods are bound to the node. DOM
 * functions do not accept the view as an argument; pass them the node itself.
 */
export const bare = <T extends object>(node: T): T => {
  const prototype: object = Object.getPrototypeOf(node);
  return new Proxy({} as T, {
    get(_, name) {
      const value: unknown = Reflect.get(prototype, name, node);
      return typeof value === 'function' ? value.bind(node) : value;
    },
    set: (_, name, value) => Reflect.set(prototype, name, value, node),
  });
};

/** The document. TypeScript's library lacks `prerendering`. */
export const page: Document & { readonly prerendering?: boolean } = bare(document);

/** Returns the attribute data-<name> without surrounding blanks; empty if it is missing. */
export const setting = (element: Element, name: string): string =>
  (bare(element).getAttribute('data-' + name) || '').trim();
