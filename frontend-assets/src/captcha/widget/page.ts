import { addStyle } from './style';
import { mount } from './widget';
import type { Widget } from './widget';

const selector = '.service-captcha';
const widgets = new Map<Element, Widget>();

/** How often tokens are looked at, in milliseconds. Not one long timer: timers stop while a computer sleeps. */
const beat = 10_000;
/** How long a tab may be hidden until its tokens are no longer renewed, in milliseconds. They are when it is looked at again. */
const patience = 900_000;

let timer = 0;
let seenAt = 0;

const each = (does: (widget: Widget) => void): void => widgets.forEach(does);

const tick = (): void => {
  const now = Date.now();
  if (!document.hidden) seenAt = now;
  if (now - seenAt < patience) each((widget) => widget.tick());
};
const retry = (): void => each((widget) => widget.retry());
// Back from the back/forward cache, most likely after the form was sent with the token of then.
const shown = (event: Event): void => each((widget) => ((event as PageTransitionEvent).persisted ? widget.spent() : widget.tick()));

/** Timer and listeners run only while there is a widget. */
const watch = (change: 'addEventListener' | 'removeEventListener'): void => {
  clearInterval(timer);
  if (change === 'addEventListener') timer = window.setInterval(tick, beat);
  document[change]('visibilitychange', tick);
  window[change]('focus', tick);
  window[change]('online', retry);
  window[change]('pageshow', shown);
};

/** Makes widgets of elements that came, and ends those of elements that went. */
const scan = (): void => {
  const before = widgets.size;
  widgets.forEach((widget, element) => {
    if (element.isConnected) return widget.follow();
    widgets.delete(element);
    widget.end();
  });
  document.querySelectorAll<HTMLElement>(selector).forEach(take);
  if (!before === !widgets.size) return;
  if (before) return watch('removeEventListener');
  seenAt = Date.now();
  watch('addEventListener');
};

const take = (element: HTMLElement): void => {
  if (widgets.has(element)) return;
  addStyle();
  widgets.set(element, mount(element));
};

/** Keeps the page's widgets from now on. Changes of mere text, which some pages make all the time, are none of ours. */
export const keep = (): void => {
  new MutationObserver((records) => {
    const elements = (nodes: NodeList) => Array.from(nodes).some((node) => node.nodeType === 1);
    if (records.some((each) => each.type === 'attributes' || elements(each.addedNodes) || elements(each.removedNodes))) scan();
  }).observe(document, { childList: true, subtree: true, attributeFilter: ['data-sitekey'] });
  scan();
};

/**
 * Resets widgets and returns how many (captcha contract, section 4, "Browser API"): those that the selector finds or the element
 * is, and those inside of these; all without a target.
 */
export const reset = (target?: Element | string | null): number => {
  scan();
  let found: Element[] = [];
  try {
    found = typeof target === 'string' ? Array.from(document.querySelectorAll(target)) : target instanceof Element ? [target] : [];
  } catch {
    // Not a selector: it finds nothing.
  }
  let count = 0;
  widgets.forEach((widget, element) => {
    if (target !== undefined && !found.some((each) => each.contains(element))) return;
    widget.reset();
    count++;
  });
  return count;
};
