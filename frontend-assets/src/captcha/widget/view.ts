import { languageOf, textsOf } from './texts';
import type { Texts } from './texts';

/** The states of a widget; the element has the class is-<state>. */
export type State = 'idle' | 'verifying' | 'done' | 'error';

const states: State[] = ['idle', 'verifying', 'done', 'error'];

/** What a visitor sees of a widget. */
export interface View {
  texts: Texts;
  /** Shows a state, and beneath the button why it is an error. */
  show(state: State, reason?: string): void;
  /** Shows how much of the work is done, 0 to 1. */
  progress(share: number): void;
  /** Puts the view into the widget's element when something took it out. */
  restore(): void;
  remove(): void;
}

/** How many views there were so far, for ids that no other element has. */
let drawn = 0;

/**
 * Draws a widget into its element, in place of whatever was there. The whole widget is one real button. It has the role of a
 * checkbox, since a plain button may not carry aria-checked. What is said beneath it is announced to screen readers.
 */
export const draw = (element: HTMLElement, pressed: () => void): View => {
  const language = languageOf(element.dataset.lang);
  const texts = textsOf(language);
  const root = make('div', 'svc-captcha');
  const button = make('button', 'svc-captcha-button');
  const box = make('span', 'svc-captcha-box');
  const label = make('span', 'svc-captcha-label');
  const note = make('div', 'svc-captcha-note');
  root.lang = language;
  root.dir = 'ltr';
  button.type = 'button';
  button.setAttribute('role', 'checkbox');
  box.setAttribute('aria-hidden', 'true');
  note.setAttribute('role', 'status');
  note.id = 'svc-captcha-note-' + ++drawn;
  button.append(box, label);
  root.append(button, note);
  button.addEventListener('click', pressed);
  const restore = () => {
    if (root.parentNode !== element) element.append(root);
  };
  element.textContent = '';
  restore();
  return {
    texts,
    show(state, reason = '') {
      for (const each of states) element.classList.toggle('is-' + each, each === state);
      const text = state === 'done' ? texts.verified : texts[state];
      label.textContent = text;
      button.setAttribute('aria-label', text);
      button.setAttribute('aria-checked', String(state === 'done'));
      // Success is said aloud too, but only there: the button shows it already.
      const said = state === 'done' ? text : reason;
      // Written once more, the same would be said once more, at each try while a server is down.
      if (note.textContent !== said) note.textContent = said;
      if (state === 'error') button.setAttribute('aria-describedby', note.id);
      else button.removeAttribute('aria-describedby');
      button.style.removeProperty(progress);
    },
    progress: (share) => button.style.setProperty(progress, String(share)),
    restore,
    remove() {
      root.remove();
      for (const each of states) element.classList.remove('is-' + each);
    },
  };
};

/** Set by script on an element's style, which no Content-Security-Policy forbids. */
const progress = '--svc-captcha-progress';

const make = <K extends keyof HTMLElementTagNameMap>(tag: K, className: string): HTMLElementTagNameMap[K] => {
  const element = document.createElement(tag);
  element.className = className;
  return element;
};
