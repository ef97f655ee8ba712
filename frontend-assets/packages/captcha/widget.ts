import { CaptchaError } from './error.js';
import type { Reason } from './error.js';
import { baseOf, load, loaded } from './load.js';

/** What a widget is set up with. */
export interface Settings {
  /** {captcha_url}, the address of the captcha, such as https://captcha.example.com. */
  url: string;
  /** The public sitekey, which begins with svck_. */
  sitekey: string;
  /** Language of the texts, such as de. Default: the page's language. */
  lang?: string | undefined;
  /** Name of the form's field with the token. Default: service-captcha-response. */
  fieldName?: string | undefined;
}

/** Settings and callbacks of a widget. */
export interface Options extends Settings {
  /** Nonce of the page's Content-Security-Policy for the script. */
  nonce?: string | undefined;
  /** The widget got a token and had no token before; not called on renewal. */
  onVerified?: ((token: string) => void) | undefined;
  /** The token is no longer valid. */
  onExpired?: (() => void) | undefined;
  /** The widget shows an error, or its script cannot be loaded. */
  onError?: ((reason: Reason) => void) | undefined;
}

/** A widget of the page. */
export interface Captcha {
  /** Resolves with a valid token, and starts the work if necessary. Rejects with a CaptchaError. */
  execute(): Promise<string>;
  /** Returns the valid token, or an empty string. */
  getResponse(): string;
  /** Clears the token and solves again. Call it after each use, because a token works once. */
  reset(): void;
  /** Changes the settings that are named. Another sitekey starts again. */
  update(settings: Partial<Omit<Settings, 'url'>>): void;
  /** Ends the widget and removes it from the page. */
  remove(): void;
}

/**
 * Writes the settings as the attributes that the script reads. An undefined setting removes its
 * attribute.
 */
const apply = (element: HTMLElement, settings: Partial<Omit<Settings, 'url'>>): void => {
  const set = (name: string, value: string | undefined) => {
    if (value === undefined) element.removeAttribute(name);
    else if (element.getAttribute(name) !== value) element.setAttribute(name, value);
  };
  if (settings.sitekey !== undefined) set('data-sitekey', settings.sitekey);
  if ('lang' in settings) set('data-lang', settings.lang);
  if ('fieldName' in settings) set('data-response-field-name', settings.fieldName);
};

/**
 * Adds a widget at the end of a container, and loads the script if necessary. In a form, the work
 * starts at the first interaction and the token becomes a field; elsewhere it starts at once.
 * Throws a TypeError for a wrong url.
 */
export const render = (container: Element, options: Options): Captcha => {
  const element = document.createElement('div');
  const removed = new AbortController();
  const { signal } = removed;
  // The page may have loaded the script from another address.
  element.setAttribute('data-api', baseOf(options.url));
  apply(element, options);
  element.className = 'service-captcha';

  /**
   * Calls f for each of the widget's events of a type, until an optional second signal is aborted.
   */
  const on = (type: string, f: (event: Event) => void, until?: AbortSignal) => {
    element.addEventListener('service-captcha:' + type, f);
    until?.addEventListener('abort', () => element.removeEventListener('service-captcha:' + type, f));
  };
  const reasonOf = (event: Event): Reason => (event as CustomEvent<{ reason: Reason }>).detail.reason;

  const getResponse = () => (signal.aborted ? '' : loaded()?.getResponse(element) || '');
  on('verified', () => options.onVerified?.(getResponse()));
  on('expired', () => options.onExpired?.());
  on('error', (event) => options.onError?.(reasonOf(event)));

  container.append(element);
  load(options.url, options.nonce).catch(() => signal.aborted || options.onError?.('unreachable'));

  const execute = async (): Promise<string> => {
    const api = await load(options.url, options.nonce);
    if (signal.aborted) throw new CaptchaError('removed');
    const token = getResponse();
    if (token) return token;

    const settled = new AbortController();
    const outcome = new Promise<string>((resolve, reject) => {
      const fail = (reason: CaptchaError['reason']) => reject(new CaptchaError(reason));
      on('verified', () => resolve(getResponse()), settled.signal);
      on('error', (event) => fail(reasonOf(event)), settled.signal);
      const end = () => fail('removed');
      signal.addEventListener('abort', end);
      settled.signal.addEventListener('abort', () => signal.removeEventListener('abort', end));
      // Work in progress continues. In any other state, a reset starts it.
      if (!element.classList.contains('is-verifying')) api.reset(element);
    });
    return outcome.finally(() => settled.abort());
  };

  return {
    execute,
    getResponse,
    reset: () => void (signal.aborted || loaded()?.reset(element)),
    update: (settings) => apply(element, settings),
    remove() {
      removed.abort();
      element.remove();
    },
  };
};

/**
 * Solves a captcha without anything on the page, for an app that sends the token itself. Rejects
 * with a CaptchaError.
 */
export const execute = async (options: Omit<Options, 'lang' | 'fieldName'>): Promise<string> => {
  const container = document.createElement('div');
  container.hidden = true;
  document.body.append(container);
  try {
    return await render(container, options).execute();
  } finally {
    container.remove();
  }
};
