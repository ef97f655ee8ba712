// What the scripts that stand in for other captchas' scripts share: they import the widget from
// /captcha.js, put one into each element that a page marks or renders, and report its tokens by the
// other captcha's callbacks. docs/owner/captcha-dropin.md describes what pages can rely on.
import { fillFields, ours, place, tokenOf } from './placed';
import type { Id, Kind, Placed } from './placed';
import { callBack } from './values';
import type { Given } from './values';

/** The operations from which each script builds its global object. */
export interface Loader {
  /** Calls a function, or the function of a name, as soon as the widget's script has run or has failed to load. */
  ready(stated: unknown): void;
  /** Renders a widget with parameters, else with the element's attributes. Returns its id. */
  render(target: unknown, given?: Given | null): Id;
  /** Finds a widget by its id or its element; without a target the first one. */
  find(target?: unknown): Placed | undefined;
  /** Starts a widget, see Placed. Throws if there is none. */
  execute(target?: unknown): Promise<string>;
  /** Renders the elements with the class. */
  renderMarked(): void;
  /** Returns a function that calls a method of the widget it is given, or returns `otherwise` without one. */
  method(name: 'response' | 'reset' | 'remove' | 'isExpired', otherwise?: unknown): (target?: unknown) => unknown;
}

/** The visitor's interactions after which a page expects its callback. */
const interactions = ['pointerdown', 'keydown', 'input'];

/** Key of the loader in its global object. A second copy of the script uses the first one's. */
const key: unique symbol = Symbol.for('service-captcha') as never;

/** Defines the global object of a captcha, and does what the script's address asks for. */
export const install = (kind: Kind, newAPI: (loader: Loader) => object): void => {
  // Read from the prototype, as widget/dom.ts does: an image with the name "currentScript" hides the
  // document's own property, and the widget would be loaded from the image's folder. In a module there
  // is no current script, and a loader that evaluates this script's text is the current one.
  const own = Document.prototype;
  const current = Reflect.get(own, 'currentScript', document) as HTMLScriptElement;
  const scripts: (HTMLScriptElement | null)[] = [current, ...Reflect.get(own, 'scripts', document)];
  const script = scripts.find((each) => each && kind.src.test(each.src)) || current;
  const query = new URL(script.src).searchParams;
  const globals = window as unknown as Record<string, object>;

  const loader: Loader = Object(globals[kind.name])[key] || newLoader(kind, new URL(kind.base, script.src).href, query);
  globals[kind.name] = Object.assign(newAPI(loader), { [key]: loader });

  const begin = () => {
    const marked = /^(onload)?$/.test(query.get('render') || '');
    // The page's function comes first, and renders with its own parameters.
    if (marked) loader.ready(loader.renderMarked);
    callBack(query.get('onload'));
  };
  loader.ready(() => (document.readyState === 'loading' ? document.addEventListener('DOMContentLoaded', begin) : begin()));
};

const newLoader = (kind: Kind, api: string, query: URLSearchParams): Loader => {
  const placed = new Set<Placed>();
  let count = 0;

  // A script element would need a trusted type. import() does not.
  const loaded = import(api + 'captcha.js').then(
    () => true,
    () => false,
  );

  const elementOf = (target: unknown): unknown =>
    typeof target === 'string'
      ? document.getElementById(target) || (/^\W/.test(target) && document.querySelector(target))
      : target;

  const find = (target?: unknown): Placed | undefined => {
    placed.forEach((each) => each.isOver() && each.remove());
    const all = [...placed];
    if (target === undefined || target === null) return all.find((each) => each.container.isConnected);
    const element = elementOf(target);
    return all.find((each) => `${each.id}` === `${target}` || each.container === element);
  };

  const fail = (target: unknown): never => {
    throw new Error(`${kind.name}: not found: ${target}`);
  };

  const render = (target: unknown, given?: Given | null): Id => {
    const container = elementOf(target);
    if (!(container instanceof Element)) return fail(target);
    if (container.getRootNode() instanceof ShadowRoot) console.warn(kind.name + ': does not work in a shadow root');
    return (find(container) || place(kind, count++, container, given || {}, { api, query, loaded, placed })).id;
  };

  /**
   * Discards the tokens in a form that was reset, which empties its textareas: the form was most likely sent.
   * The copies that a page has made of widgets are widgets of the own script only.
   */
  const discard = (form: Node) => {
    // A field of the form may have the name "contains".
    const isInside = (element: Element) => Node.prototype.contains.call(form, element);
    placed.forEach((each) => isInside(each.container) && each.response() && each.reset());
    document.querySelectorAll(ours).forEach((each) => isInside(each) && tokenOf(each) && window.serviceCaptcha!.reset(each));
  };

  const interact = () => [...placed].forEach((each) => each.interacted());
  interactions.forEach((type) => document.addEventListener(type, interact, true));
  // Listeners of the page may still cancel the reset.
  document.addEventListener('reset', (event) => setTimeout(() => event.defaultPrevented || discard(event.target as Node)), true);
  document.addEventListener('service-captcha:token', (event) => fillFields(event.target as Element));

  return {
    render,
    find,
    execute: (target) => (find(target) || fail(target)).execute(),
    // In a task of its own, so that an error of the page is reported as one.
    ready: (stated) => void loaded.then(() => setTimeout(callBack, 0, stated)),
    renderMarked: () => document.querySelectorAll('.' + kind.mark).forEach((each) => render(each)),
    method: (name, otherwise) => (target) => {
      const widget = find(target);
      return widget ? widget[name]() : otherwise;
    },
  };
};
