// The one name that the script adds to a page. Whether the script runs already is known by the
// symbol of main.ts, since an element with the same id also answers to this name.

interface Window {
  serviceCaptcha?: {
    /** Resets one widget, those that a selector finds, or all, and returns how many. */
    reset(target?: Element | string | null): number;
    /** Returns the token of the first of these widgets that has one, or an empty string. */
    getResponse(target?: Element | string | null): string;
  };
}

/** The minified text of a stylesheet. */
declare module '*.css' {
  const text: string;
  export default text;
}
