// The one name that the script adds to a page. The symbol in main.ts shows that the script runs; this
// name cannot, because an element with the same id also answers to it.

interface Window {
  serviceCaptcha?: {
    /** Resets one widget, those that a selector matches, or all, and returns their number. */
    reset(target?: Element | string | null): number;
    /** Returns the first token that one of these widgets has, or an empty string. */
    getResponse(target?: Element | string | null): string;
  };
}

/** The minified text of a stylesheet. */
declare module '*.css' {
  const text: string;
  export default text;
}
