import type { Problem } from './api';
import { bare, page, setting } from './dom';
import { languageOf, textsOf } from './texts';
import type { State, Texts } from './texts';
import { secondsToShow } from './wait';

export type { State };

const states: State[] = ['idle', 'verifying', 'done', 'error'];

/** The visible part of a widget. */
export interface View {
  /**
   * Shows a state, and gives the element the class is-<state>. A problem is explained beneath the
   * button.
   */
  show(state: State, problem?: Problem): void;
  /** Shows the share of the work that is done, 0 to 1. */
  progress(share: number): void;
  /** Shows the milliseconds that the work is expected to take, if they are many. */
  wait(milliseconds: number): void;
  /**
   * Updates the language, and restores elements that the page has removed or changed. Returns
   * whether it restored anything.
   */
  restore(): boolean;
  /** Removes the view from the page. */
  remove(): void;
}

/** Number of views created, for unique element ids. */
let viewCount = 0;

/**
 * Creates the view of a widget. The first restore() inserts it into the element, in place of the
 * element's content. The whole widget is one real button. It has the role of a checkbox, because a
 * plain button must not carry aria-checked. Screen readers announce the note beneath it.
 */
export const newView = (element: HTMLElement, onPress: () => void): View => {
  const own = bare(element);
  const root = newElement('div', 'svc-captcha');
  const button = newElement('button', 'svc-captcha-button');
  const box = newElement('span', 'svc-captcha-box');
  const label = newElement('span', 'svc-captcha-label');
  const note = newElement('div', 'svc-captcha-note');
  root.dir = 'ltr';
  button.type = 'button';
  button.setAttribute('role', 'checkbox');
  box.setAttribute('aria-hidden', 'true');
  note.setAttribute('role', 'status');
  note.id = 'svc-captcha-note-' + ++viewCount;
  button.append(box, label);
  root.append(button, note);
  button.addEventListener('click', onPress);

  let texts: Texts;
  let placed = false;
  let shown: State = 'idle';
  let current: Problem | undefined;
  let seconds = 0; // the wait that the label shows
  let announced = ''; // the label with the first wait

  /** Gives the element the class of the shown state. Returns whether it lacked the class. */
  const updateClass = (): boolean => {
    const lacked = !own.classList.contains('is-' + shown);
    for (const each of states) own.classList.toggle('is-' + each, each === shown);
    return lacked;
  };

  const render = () => {
    let text = texts[shown];
    if (seconds) {
      text = text.slice(0, -1) + ', ' + texts.wait.replace('#', `${seconds}`);
      announced = announced || text;
    }
    label.textContent = text;
    // Screen readers announce each new name of a button that has the focus.
    if (!announced || page.activeElement !== button) button.setAttribute('aria-label', text);
    button.setAttribute('aria-checked', String(shown === 'done'));
    // The note announces success and the first wait to screen readers. It is not visible then, because
    // the button shows both.
    const message = shown === 'done' ? text : announced || explain();
    const detail = current && current.reason === 'setup' ? current.detail : '';
    // Screen readers announce a note whenever it is written, so an unchanged note is left alone, as
    // at each retry while a server is down.
    if (note.textContent !== message + detail) {
      note.textContent = message;
      if (detail) note.append(englishSpan(detail));
    }
    if (shown === 'error') button.setAttribute('aria-describedby', note.id);
    else button.removeAttribute('aria-describedby');
  };

  /** Returns the problem in the visitor's language. A host is added, as it needs no translation. */
  const explain = (): string => {
    if (!current) return '';
    const text = texts[current.reason];
    if (!current.detail) return text;
    return current.reason === 'unreachable'
      ? text + ': ' + current.detail
      : current.reason === 'setup'
        ? text + ': '
        : text;
  };

  return {
    show(state, problem) {
      shown = state;
      current = problem;
      seconds = 0;
      announced = '';
      updateClass();
      render();
      button.style.removeProperty(progress);
    },
    progress: (share) => button.style.setProperty(progress, String(share)),
    wait(milliseconds) {
      const next = secondsToShow(milliseconds, seconds, !!announced);
      if (shown !== 'verifying' || next === seconds) return;
      seconds = next;
      render();
    },
    restore() {
      const language = languageOf(setting(element, 'lang'));
      if (language !== root.lang) {
        root.lang = language;
        texts = textsOf(language);
        announced = '';
        render();
      }
      const detached = root.parentNode !== element;
      if (detached) {
        // The view replaces the element's original content, and follows content that the page adds
        // later.
        if (!placed) own.textContent = '';
        placed = true;
        own.append(root);
      }
      return updateClass() || detached;
    },
    remove() {
      root.remove();
      for (const each of states) own.classList.remove('is-' + each);
    },
  };
};

/** Custom property for the progress. No Content-Security-Policy forbids scripts to set it. */
const progress = '--svc-captcha-progress';

const newElement = <K extends keyof HTMLElementTagNameMap>(tag: K, className: string): HTMLElementTagNameMap[K] => {
  const element = page.createElement(tag);
  if (className) element.className = className;
  return element;
};

/** Creates an element for a text in English, which is meant for the page's author. */
const englishSpan = (text: string): HTMLElement => {
  const element = newElement('span', '');
  element.lang = 'en';
  element.textContent = text;
  return element;
};
