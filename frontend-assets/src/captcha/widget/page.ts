import { bare, page } from './dom';
import { addStyle } from './style';
import { newWidget } from './widget';
import type { Widget } from './widget';

const selector = '.service-captcha';
const widgets = new Map<Element, Widget>();

/**
 * Milliseconds between two checks of the tokens' age. An interval is used instead of one long timer
 * because timers stop while a computer sleeps.
 */
const tickInterval = 10_000;
/**
 * Milliseconds that a tab may be hidden before its tokens are no longer renewed. They are renewed
 * when the tab becomes visible again.
 */
const hiddenLimit = 900_000;

let timer = 0;
let seenAt = 0;

/**
 * Runs an action of a widget. An error puts that widget into its error state, and reaches neither
 * the page nor the other widgets.
 */
const guard = (widget: Widget, action: (widget: Widget) => void): void => {
  try {
    action(widget);
  } catch (thrown) {
    widget.fail(thrown);
  }
};
const forEachWidget = (action: (widget: Widget) => void): void => widgets.forEach((widget) => guard(widget, action));

const tick = (): void => {
  const now = Date.now();
  if (!page.hidden) seenAt = now;
  if (now - seenAt < hiddenLimit) forEachWidget((widget) => widget.tick());
};
const retry = (): void => forEachWidget((widget) => widget.retry());
// The back/forward cache restores a page most likely after its form was sent with the token.
const shown = (event: Event): void =>
  forEachWidget((widget) => ((event as PageTransitionEvent).persisted ? widget.drop() : widget.tick()));

/** Adds or removes the timer and the listeners, which exist only while there is a widget. */
const toggleListeners = (change: 'addEventListener' | 'removeEventListener'): void => {
  clearInterval(timer);
  if (change === 'addEventListener') timer = window.setInterval(tick, tickInterval);
  page[change]('visibilitychange', tick);
  window[change]('focus', tick);
  window[change]('online', retry);
  window[change]('pageshow', shown);
};

/**
 * Brings the widgets up to date with the page: new elements become widgets, existing widgets adapt,
 * and a widget ends when its element was removed or has lost the class.
 */
const scan = (): void => {
  const before = widgets.size;
  widgets.forEach((widget, element) => {
    const own = bare(element);
    if (own.isConnected && own.matches(selector)) return guard(widget, () => widget.update());
    widgets.delete(element);
    guard(widget, () => widget.end());
  });
  page.querySelectorAll<HTMLElement>(selector).forEach(addWidget);
  if (!before === !widgets.size) return;
  if (before) return toggleListeners('removeEventListener');
  seenAt = Date.now();
  toggleListeners('addEventListener');
};

const addWidget = (element: HTMLElement): void => {
  if (widgets.has(element)) return;
  const widget = newWidget(element);
  // The widget is registered before it is drawn. Drawing changes the page, which is scanned again,
  // and an error must not create a second widget for the element.
  widgets.set(element, widget);
  guard(widget, () => {
    addStyle();
    widget.update();
  });
};

/**
 * Returns whether a change of the page may affect a widget. Pages change texts and classes all the
 * time.
 */
const isRelevant = (record: MutationRecord): boolean => {
  const target = record.target as Element;
  if (record.attributeName === 'class') return widgets.has(target) || Element.prototype.matches.call(target, selector);
  const elements = (nodes: NodeList) =>
    Array.from(nodes).some((node) => Reflect.get(Node.prototype, 'nodeType', node) === 1);
  return record.type === 'attributes' || elements(record.addedNodes) || elements(record.removedNodes);
};

/** Creates the page's widgets, and keeps them up to date with the page. */
export const watchPage = (): void => {
  new MutationObserver((records) => records.some(isRelevant) && scan()).observe(document, {
    childList: true,
    subtree: true,
    attributeFilter: ['class', 'lang', 'data-lang', 'data-sitekey', 'data-response-field-name'],
  });
  // Widgets start when a prerendered page is shown.
  if (page.prerendering) page.addEventListener('prerenderingchange', scan, { once: true });
  scan();
};

/** A node, a selector, or a list of nodes, such as a NodeList. */
export type Target = Node | string | Iterable<Node> | ArrayLike<Node> | null;

/**
 * Finds the widgets that the target is or contains. Without a target it finds all.
 */
const find = (target?: Target): Widget[] => {
  scan();
  let within: Node[] = [];
  try {
    if (target instanceof Node) within = [target];
    else within = Array.from(typeof target === 'string' ? page.querySelectorAll(target) : target!);
    within = within.filter((each) => each instanceof Node);
  } catch {
    // Neither a selector nor a list: nothing is found.
  }
  const found: Widget[] = [];
  widgets.forEach((widget, element) => {
    if (target === undefined || within.some((each) => bare(each).contains(element))) found.push(widget);
  });
  return found;
};

/** Resets widgets and returns their number (captcha contract, section 4, "Browser API"). */
export const reset = (target?: Target): number => {
  const found = find(target);
  found.forEach((widget) => guard(widget, () => widget.reset()));
  return found.length;
};

/** Returns the first token that one of these widgets has, or an empty string. */
export const getResponse = (target?: Target): string => {
  let token = '';
  find(target).forEach((widget) => guard(widget, () => (token = token || widget.response())));
  return token;
};
