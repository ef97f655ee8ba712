import css from '../captcha.css';
import { page } from './dom';

let added = false;

/**
 * Adds the widget's style to the page, once, unless the page links the stylesheet (captcha contract,
 * section 4). A Content-Security-Policy does not treat an adopted sheet as an inline style. Browsers
 * without adopted sheets get a style element.
 */
export const addStyle = (): void => {
  if (added || page.getElementById('svc-captcha-css')) return;
  added = true;
  try {
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(css);
    page.adoptedStyleSheets = [...page.adoptedStyleSheets, sheet];
  } catch {
    const style = page.createElement('style');
    style.textContent = css;
    (page.head || page.documentElement).append(style);
  }
};
