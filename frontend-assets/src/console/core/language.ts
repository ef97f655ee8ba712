// Texts in the user's language. English is built in; messages/<code>.ts holds each other language.
import en from '../messages/en';
import type { Message, TextKey } from '../messages/keys';
import { remembered } from './choices';

export type { TextKey };

/** Messages are the texts of one language by key. */
export type Messages = Record<string, Message>;

/** languages are the console's languages by code, with their own names. */
export const languages: Record<string, string> = { en: 'English', de: 'Deutsch' };

let texts: Messages = { ...en };
let code = 'en';

/** language returns the code of the console's language. */
export const language = (): string => code;

/** locale returns what Intl formats with: the browser's variant of the language if it has one. */
export function locale(): string {
  return navigator.languages.find((tag) => tag.toLowerCase().split('-')[0] === code) ?? code;
}

/** preferredLanguage returns the chosen language, else the first of the browser's that the console speaks. */
export function preferredLanguage(): string {
  const wanted = [remembered('language'), ...navigator.languages.map((tag) => tag.toLowerCase().split('-')[0]!)];
  return wanted.find((tag) => tag in languages) ?? 'en';
}

/** setLanguage replaces the texts. English texts stay for keys that the language lacks. */
export function setLanguage(tag: string, messages: Messages): void {
  code = tag;
  texts = { ...texts, ...messages };
  document.documentElement.lang = tag;
}

/** addMessages adds the English texts of pages that are loaded on demand, but replaces no text of the language. */
export function addMessages(messages: Messages): void {
  texts = { ...messages, ...texts };
}

let later: Promise<void> | undefined;

/** loadPageTexts loads the language's texts of the modules that are loaded on demand, which contain the English ones. */
export function loadPageTexts(): Promise<void> {
  if (code !== 'de') return Promise.resolve();
  return (later ??= import('../messages/de-pages').then(
    (module) => {
      texts = { ...texts, ...module.default };
    },
    (failure) => {
      later = undefined;
      throw failure;
    },
  ));
}

/** t returns a text with its parameters filled in: {name} is replaced, and n chooses the plural form. */
export const t = (key: TextKey, values: Record<string, string | number> = {}): string => filled(key, key, values);

function filled(key: string, otherwise: string, values: Record<string, string | number>): string {
  const message = texts[key];
  if (message === undefined) return otherwise;

  const form = typeof message === 'string' ? message : message[plural(values['n'])];
  // A text is its own local form.
  return form.replace(/\{(\w+)\}/g, (whole, name: string) => (values[name] as number)?.toLocaleString(locale()) ?? whole);
}

function plural(n: string | number | undefined): 'one' | 'other' {
  return new Intl.PluralRules(code).select(Number(n)) === 'one' ? 'one' : 'other';
}

/** translated returns the text of a code of the server with its parameters, or the server's own English one. */
export function translated(
  group: 'channel' | 'device' | 'group' | 'error' | 'failure' | 'fault' | 'advice' | 'attempt' | `audit.${'do' | 'field' | 'is' | 'of' | 'verb' | 'what'}` | 'problem' | 'check.ignored',
  name: string,
  otherwise: string,
  values: Record<string, string | number> = {},
): string {
  return filled(`${group}.${name}`, otherwise, values);
}
