import { callBack } from './values';
import type { Given } from './values';

/** What differs between the captchas. */
export interface Kind {
  /** Name of the global object. */
  name: string;
  /** Matches the script's address by the end of its path. */
  src: RegExp;
  /** {captcha_url}, relative to the script. */
  base: string;
  /** Class of the elements that become widgets. The field with the token has this name and "-response". */
  mark: string;
  /** Whether a widget starts, and starts again, without an interaction of the visitor. */
  eager?: boolean;
  /** Returns the id of the nth widget, from 0. */
  id(n: number): Id;
  /** The element of the field with the token, as pages of the captcha expect it. */
  field: 'textarea' | 'input';
  /** Gives the nth field the id or class by which pages find it. */
  markField(field: Field, n: number): void;
  /** Returns the name of a second field with the token, or an empty text. */
  secondName?(query: URLSearchParams): string;
}

export type Id = number | string;

export type Field = HTMLTextAreaElement | HTMLInputElement;

/** The script that renders widgets. */
export interface Source {
  /** {captcha_url} with a slash */
  api: string;
  query: URLSearchParams;
  /** Whether the widget's own script has run; false if it could not be loaded. */
  loaded: Promise<boolean>;
  /** The widgets that have not been removed. */
  placed: Set<Placed>;
}

/** A widget as a page knows it. */
export interface Placed {
  id: Id;
  container: Element;
  /** Whether the page has emptied the container, or has replaced it. */
  isOver(): boolean;
  /** Obtains a token that the page has not got yet. Rejects when the widget shows an error. */
  execute(): Promise<string>;
  /** Clears the token. */
  reset(): void;
  /** Returns the token, or an empty string. */
  response(): string;
  /** Whether the last token is no longer valid, and there is no new one. */
  isExpired(): boolean;
  /** Removes the widget from the document. */
  remove(): void;
  /** Called at each interaction of the visitor with the document. */
  interacted(): void;
}

const widgetClass = 'service-captcha';

/** The elements of a widget and of its fields, also where a page has copied them. */
export const ours = '[data-svc]';

/** Returns the token of a widget's element, or an empty string. */
export const tokenOf = (widget: Element): string => (window.serviceCaptcha ? window.serviceCaptcha.getResponse(widget) : '');

/**
 * Writes the token of a widget's element into the fields after it. Where a page has copied its content, the
 * copy is a widget of the own script, and this keeps its form working.
 */
export const fillFields = (widget: Element): void => {
  for (let next = widget.nextElementSibling; next && next.matches('[name]' + ours); next = next.nextElementSibling)
    (next as Field).value = tokenOf(widget);
};

/** Puts a widget into a container, or behind a button. */
export const place = (kind: Kind, number: number, container: Element, given: Given, source: Source): Placed => {
  const parameter = (name: string): unknown => given[name] ?? container.getAttribute('data-' + name);
  const size = parameter('size');
  const isButton = container.matches('button,input');
  const isHidden = isButton || size === 'invisible';
  // Such a widget does nothing before execute().
  const onDemand = isHidden || parameter('execution') === 'execute';
  const eager = kind.eager && !onDemand;

  const waiting: ((token: string, failure?: string) => void)[] = [];
  let reported = ''; // the last token that the page has got
  let held = false; // whether the next token waits for an interaction
  let inside = false; // a call whose consequences need no further action

  const widget = document.createElement('div');
  const newField = (name: string) => {
    const field = document.createElement(kind.field);
    if (kind.field === 'input') field.setAttribute('type', 'hidden');
    // A page's style may show all textareas.
    field.style.setProperty('display', 'none', 'important');
    field.name = name;
    // Without this a browser may restore an old token when the page is reloaded.
    field.autocomplete = 'off';
    return field;
  };
  const field = newField(`${parameter('response-field-name') || kind.mark + '-response'}`);
  const second = newField('');
  kind.markField(field, number);
  const response = () => tokenOf(widget);
  const updateFields = () => {
    field.value = second.value = response();
    if (kind.secondName) second.name = kind.secondName(source.query);
  };

  const settle = (token: string, failure?: string) => {
    waiting.splice(0).forEach((each) => each(token, failure));
  };

  const within = (action: () => void) => {
    inside = true;
    try {
      action();
    } finally {
      inside = false;
    }
  };
  /** Reports an expiry or an error. The widget continues by itself, so a reset by the page is ignored. */
  const notify = (name: string, value?: string) => within(() => callBack(parameter(name), value));

  /** Reports a token that the page has not got, if the page expects one. */
  const report = () => {
    const token = response();
    updateFields();
    if (!token || token === reported || (!waiting.length && (onDemand || held))) return;
    reported = token;
    settle(token);
    try {
      callBack(parameter('callback'), token);
    } finally {
      // After a reset within the callback, an eager widget waits, too. Else the callback would call itself.
      held = !kind.eager || !reported;
    }
  };

  /** Solves again. The page need not learn that the token before has expired. */
  const restart = () => within(() => window.serviceCaptcha && window.serviceCaptcha.reset(widget));

  const fail = (reason: string) => {
    settle('', reason);
    notify('error-callback', reason);
  };

  const expire = () => {
    // A widget on demand returns to its state before execute(). Its script notices that at the next call.
    if (onDemand) widget.className = '';
    updateFields();
    held = !kind.eager;
    notify('expired-callback');
  };

  /** Does what the page expects of the widget, once the widget's script is there. */
  const begin = (isLoaded: boolean) => {
    if (!isLoaded) return fail('unreachable');
    if (!waiting.length && (!eager || (document as { prerendering?: boolean }).prerendering)) return;
    const token = response();
    if (token && token !== reported) return report();
    widget.classList.add(widgetClass);
    if (token || !widget.matches('.is-verifying')) restart();
  };

  const execute = () => {
    const result = new Promise<string>((resolve, reject) =>
      waiting.push((token, failure) => (failure ? reject(new Error(failure)) : resolve(token))),
    );
    // A page that uses callbacks alone handles no rejection.
    result.catch(() => {});
    void source.loaded.then(begin);
    return result;
  };

  const events: Record<string, (detail: { reason: string }) => void> = {
    verified: report,
    // A renewal, which comes without "verified".
    token() {
      if (field.value === response()) return;
      if (eager) report();
      else expire();
    },
    expired: () => (inside ? updateFields() : expire()),
    error: (detail) => fail(detail.reason),
  };
  // The widget of a removed element may still dispatch events, for example after "verified" removed it.
  for (const name in events)
    widget.addEventListener(
      'service-captcha:' + name,
      (event) => widget.isConnected && events[name]!((event as CustomEvent).detail),
    );

  Object.assign(widget.dataset, {
    sitekey: parameter('sitekey') || '',
    api: source.api,
    // Turnstile's "auto" is the default.
    lang: `${parameter('hl') || parameter('language') || source.query.get('hl') || ''}`.replace('auto', ''),
    // The form sends the field of this script, so the widget's own has no name.
    responseFieldName: '-',
  });
  // No Content-Security-Policy forbids scripts to set these properties. Other themes than light and dark
  // are no valid value, and change nothing.
  widget.style.colorScheme = `${parameter('theme')}`;
  if (size === 'compact') widget.style.width = '10em';
  widget.hidden = isHidden || parameter('appearance') === 'interaction-only';
  if (!onDemand) widget.className = widgetClass;

  // Left over where the page has copied a container.
  const elements = kind.secondName ? [widget, field, second] : [widget, field];
  const old = (): Element | null => (isButton ? container.nextElementSibling : container.querySelector(':scope > ' + ours));
  for (let each = old(); each && each.matches(ours); each = old()) each.remove();
  for (const each of elements) each.dataset.svc = '';
  container[isButton ? 'after' : 'append'](...elements);

  const onClick = (event: Event) => {
    event.preventDefault();
    void execute();
  };
  if (isButton) container.addEventListener('click', onClick);

  updateFields();
  void source.loaded.then(begin);

  const self: Placed = {
    id: kind.id(number),
    container,
    execute,
    response,
    // A page may wrap a button into another element.
    isOver: () => (isButton ? widget.isConnected !== container.isConnected : widget.parentNode !== container),
    isExpired: () => !!reported && !response(),
    interacted() {
      if (!held) return;
      held = false;
      report();
    },
    reset() {
      if (inside) return;
      settle('', 'cancelled');
      held = !kind.eager;
      reported = '';
      if (onDemand) widget.className = '';
      else restart();
      updateFields();
    },
    remove() {
      settle('', 'cancelled');
      source.placed.delete(self);
      for (const each of elements) each.remove();
      container.removeEventListener('click', onClick);
    },
  };
  source.placed.add(self);
  return self;
};
