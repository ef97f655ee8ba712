import { bare, page } from './dom';
import { addStyle } from './style';
import { mount } from './widget';
import type { Widget } from './widget';

const selector = '.service-captcha';
const widgets = new Map<Element, Widget>();

/**
 * How often tokens are looked at, in milliseconds. Not one long timer: timers stop while a computer
 * sleeps.
 */
const beat = 10_000;
/**
 * How long a tab may be hidden until its tokens are no longer renewed, in milliseconds. They are
 * when it is looked at again.
 */
const patience = 900_000;

let timer = 0;
let seenAt = 0;

/**
 * Lets a widget do something. An error ends in its own error state, and reaches neither the page
 * nor the other widgets.
 */
const guard = (widget: Widget, does: (widget: Widget) => void): void => {
  try {
    does(widget);
  } catch (thrown) {
    widget.fail(thrown);
  }
};
const each = (does: (widget: Widget) => void): void => widgets.forEach((widget) => guard(widget, does));

const tick = (): void => {
  const now = Date.now();
  if (!page.hidden) seenAt = now;
  if (now - seenAt < patience) each((widget) => widget.tick());
};
const retry = (): void => each((widget) => widget.retry());
// Back from the back/forward cache, most likely after the form was sent with the token of then.
const shown = (event: Event): void => each((widget) => ((event as PageTransitionEvent).persisted ? widget.spent() : widget.tick()));

/** Timer and listeners run only while there is a widget. */
const watch = (change: 'addEventListener' | 'removeEventListener'): void => {
  clearInterval(timer);
  if (change === 'addEventListener') timer = window.setInterval(tick, beat);
  page[change]('visibilitychange', tick);
  window[change]('focus', tick);
  window[change]('online', retry);
  window[change]('pageshow', shown);
};

/**
 * Makes widgets of elements that came, lets the others follow the page, and ends those whose
 * element went or lost the class.
 */
const scan = (): void => {
  const before = widgets.size;
  widgets.forEach((widget, element) => {
    const own = bare(element);
    if (own.isConnected && own.matches(selector)) return guard(widget, () => widget.follow());
    widgets.delete(element);
    guard(widget, () => widget.end());
  });
  page.querySelectorAll<HTMLElement>(selector).forEach(take);
  if (!before === !widgets.size) return;
  if (before) return watch('removeEventListener');
  seenAt = Date.now();
  watch('addEventListener');
};

const take = (element: HTMLElement): void => {
  if (widgets.has(element)) return;
  const widget = mount(element);
  // Before it is drawn: drawing changes the page, which is scanned again, and an error must not
  // make another widget of it.
  widgets.set(element, widget);
  guard(widget, () => {
    addStyle();
    widget.follow();
  });
};

/**
 * Returns whether a change of the page may concern a widget. Pages change texts and classes all the
 * time.
 */
const concerns = (record: MutationRecord): boolean => {
  const target = record.target as Element;
  if (record.attributeName === 'class') return widgets.has(target) || Element.prototype.matches.call(target, selector);
  const elements = (nodes: NodeList) => Array.from(nodes).some((node) => Reflect.get(Node.prototype, 'nodeType', node) === 1);
  return record.type === 'attributes' || elements(record.addedNodes) || elements(record.removedNodes);
};

/** Keeps the page's widgets from now on. */
export const keep = (): void => {
  new MutationObserver((records) => records.some(concerns) && scan()).observe(document, {
    childList: true,
    subtree: true,
    attributeFilter: ['class', 'lang', 'data-lang', 'data-sitekey', 'data-response-field-name'],
  });
  // Widgets wait until a prerendered page is shown.
  if (page.prerendering) page.addEventListener('prerenderingchange', scan, { once: true });
  scan();
};

/**
 * Finds widgets: those that the selector finds or the element is, and those inside of these; all
 * without a target.
 */
const find = (target?: Element | string | null): Widget[] => {
  scan();
  let within: Element[] = [];
  try {
    within = typeof target === 'string' ? Array.from(page.querySelectorAll(target)) : target instanceof Element ? [target] : [];
  } catch {
    // Not a selector: it finds nothing.
  }
  const found: Widget[] = [];
  widgets.forEach((widget, element) => {
    if (target === undefined || within.some((each) => bare(each).contains(element))) found.push(widget);
  });
  return found;
};

/** Resets widgets and returns how many (captcha contract, section 4, "Browser API"). */
export const reset = (target?: Element | string | null): number => {
  const found = find(target);
  found.forEach((widget) => guard(widget, () => widget.reset()));
  return found.length;
};

/** Returns the token of the first of these widgets that has one, or an empty string. */
export const getResponse = (target?: Element | string | null): string => {
  let token = '';
  find(target).forEach((widget) => guard(widget, () => (token = token || widget.response())));
  return token;
};
