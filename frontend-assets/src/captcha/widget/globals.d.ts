// The one name that the script adds to a page. The symbol in main.ts shows that the script runs; this
// name cannot, because an element with the same id also answers to it.

interface Window {
  serviceCaptcha?: {
    /** Resets the widgets of an element, of a list, or that a selector matches, or all. Returns their number. */
    reset(target?: Node | string | Iterable<Node> | ArrayLike<Node> | null): number;
    /** Returns the first token that one of these widgets has, or an empty string. */
    getResponse(target?: Node | string | Iterable<Node> | ArrayLike<Node> | null): string;
  };
}

/** The minified text of a stylesheet. */
declare module '*.css' {
  const text: string;
  export default text;
}
