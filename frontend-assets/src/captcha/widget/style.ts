import css from '../captcha.css';
import { page } from './dom';

let done = false;

/**
 * Gives the page our style, once, unless it has the stylesheet's link (captcha contract, section
 * 4). An adopted sheet is no inline style to a Content-Security-Policy; browsers without them get a
 * style element.
 */
export const addStyle = (): void => {
  if (done || page.getElementById('svc-captcha-css')) return;
  done = true;
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
