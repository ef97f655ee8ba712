/**
 * Views a node without the names that a page gives to its elements: a field named "append" hides
 * the form's own method, and an image named "head" the document's property. Properties come from
 * the node's prototypes, methods are bound to the node. DOM functions do not accept the view as an
 * argument; pass the node itself.
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

/** The document. `prerendering` is not in TypeScript's library. */
export const page: Document & { readonly prerendering?: boolean } = bare(document);

/** Reads an attribute data-<name> without blanks around it; empty when it is missing. */
export const setting = (element: Element, name: string): string => (bare(element).getAttribute('data-' + name) || '').trim();
