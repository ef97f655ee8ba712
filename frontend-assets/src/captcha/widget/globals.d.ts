// The one name that the script adds to a page.

interface Window {
  serviceCaptcha?: {
    /** Resets one widget, those that a selector finds, or all, and returns how many. */
    reset(target?: Element | string | null): number;
  };
}

/** The minified text of a stylesheet. */
declare module '*.css' {
  const text: string;
  export default text;
}
