import type { Problem } from './api';
import { bare, page, setting } from './dom';
import { languageOf, textsOf } from './texts';
import type { State, Texts } from './texts';

export type { State };

const states: State[] = ['idle', 'verifying', 'done', 'error'];

/** What a visitor sees of a widget. */
export interface View {
  /**
   * Shows a state; the element has the class is-<state>. A problem is explained beneath the button.
   */
  show(state: State, problem?: Problem): void;
  /** Shows how much of the work is done, 0 to 1. */
  progress(share: number): void;
  /**
   * Follows the language, puts back what the page has taken out or rewritten, and returns whether
   * there was such a thing.
   */
  restore(): boolean;
  /** Takes the view out of the page. */
  remove(): void;
}

/** How many views there were so far, for ids that no other element has. */
let drawn = 0;

/**
 * Makes the view of a widget; the first restore() puts it into the element, in place of whatever is
 * there. The whole widget is one real button. It has the role of a checkbox, since a plain button
 * may not carry aria-checked. What is said beneath it is announced to screen readers.
 */
export const draw = (element: HTMLElement, pressed: () => void): View => {
  const own = bare(element);
  const root = make('div', 'svc-captcha');
  const button = make('button', 'svc-captcha-button');
  const box = make('span', 'svc-captcha-box');
  const label = make('span', 'svc-captcha-label');
  const note = make('div', 'svc-captcha-note');
  root.dir = 'ltr';
  button.type = 'button';
  button.setAttribute('role', 'checkbox');
  box.setAttribute('aria-hidden', 'true');
  note.setAttribute('role', 'status');
  note.id = 'svc-captcha-note-' + ++drawn;
  button.append(box, label);
  root.append(button, note);
  button.addEventListener('click', pressed);

  let texts: Texts;
  let placed = false;
  let shown: State = 'idle';
  let trouble: Problem | undefined;

  /** Gives the element the class of the shown state and returns whether it lacked it. */
  const mark = (): boolean => {
    const lacked = !own.classList.contains('is-' + shown);
    for (const each of states) own.classList.toggle('is-' + each, each === shown);
    return lacked;
  };

  const write = () => {
    const text = texts[shown];
    label.textContent = text;
    button.setAttribute('aria-label', text);
    button.setAttribute('aria-checked', String(shown === 'done'));
    // Success is said aloud too, but only there: the button shows it already.
    const said = shown === 'done' ? text : explain();
    const detail = trouble && trouble.reason === 'setup' ? trouble.detail : '';
    // Written a second time, the same would be said a second time, at each retry while a server is
    // down.
    if (note.textContent !== said + detail) {
      note.textContent = said;
      if (detail) note.append(inEnglish(detail));
    }
    if (shown === 'error') button.setAttribute('aria-describedby', note.id);
    else button.removeAttribute('aria-describedby');
    button.style.removeProperty(progress);
  };

  /**
   * Returns what to say about the problem in the visitor's language. Only a host needs no
   * translation.
   */
  const explain = (): string => {
    if (!trouble) return '';
    const text = texts[trouble.reason];
    if (!trouble.detail) return text;
    return trouble.reason === 'unreachable' ? text + ': ' + trouble.detail : trouble.reason === 'setup' ? text + ': ' : text;
  };

  return {
    show(state, problem) {
      shown = state;
      trouble = problem;
      mark();
      write();
    },
    progress: (share) => button.style.setProperty(progress, String(share)),
    restore() {
      const language = languageOf(setting(element, 'lang'));
      if (language !== root.lang) {
        root.lang = language;
        texts = textsOf(language);
        write();
      }
      const away = root.parentNode !== element;
      if (away) {
        // The view takes the place of what the element came with, and stands behind what the page
        // adds later.
        if (!placed) own.textContent = '';
        placed = true;
        own.append(root);
      }
      return mark() || away;
    },
    remove() {
      root.remove();
      for (const each of states) own.classList.remove('is-' + each);
    },
  };
};

/** Set by script on an element's style, which no Content-Security-Policy forbids. */
const progress = '--svc-captcha-progress';

const make = <K extends keyof HTMLElementTagNameMap>(tag: K, className: string): HTMLElementTagNameMap[K] => {
  const element = page.createElement(tag);
  if (className) element.className = className;
  return element;
};

/** Makes an element for a text that is for the page's author, not for the visitor. */
const inEnglish = (text: string): HTMLElement => {
  const element = make('span', '');
  element.lang = 'en';
  element.textContent = text;
  return element;
};
