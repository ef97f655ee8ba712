// The script in the place of Plausible's: /js/script.js with its variants, and /js/pa-KEY.js.
import { stripQuery } from '../svc/address';
import { guard, listen } from '../svc/guard';
import { claim, followFragment, pathOf, report, start } from './core';
import type { Report } from './core';
import { callAt, findTag, keyFolder, readTag } from './tag';

type Properties = Record<string, unknown>;

/** What a page says about a page view or an event. */
interface Options {
  props?: Properties;
  meta?: Properties;
  revenue?: { amount?: unknown; currency?: unknown };
  /** Address of the page. */
  u?: unknown;
  url?: unknown;
  callback?: (result: object) => void;
}

/** The argument of plausible.init. Settings without a meaning here are left out. */
interface Settings {
  endpoint?: string;
  hashBasedRouting?: unknown;
  autoCapturePageviews?: unknown;
  formSubmissions?: unknown;
  /** Properties of every event. */
  customProperties?: Properties | ((name: string) => Properties);
  transformRequest?: (payload: Payload) => Payload | undefined;
}

/** A page view or event in Plausible's words. */
interface Payload {
  n: unknown;
  u: string | undefined;
  d: string | undefined;
  r: string | null;
  p: unknown;
}

interface Plausible {
  (...call: Tracked): void;
  init(settings?: Settings): void;
  q: { push(call: Tracked): unknown };
  /** What the snippet's init has been called with, before the script runs. */
  o?: Settings;
  /** Set by the script, not by the snippet. */
  l?: true;
}

type Tracked = [name: string, options?: Options];

declare global {
  interface Window {
    plausible?: Plausible;
  }
}

const pageview = 'pageview';

/** Matches the names of the script that need no further sign in the tag. */
const named = /\/js\/((script|plausible|index)[\w.-]*|pa-[\da-f-]+)\.js/;

const tag = findTag((script) => 'domain' in script.dataset || script.id === 'plausible' || named.test(script.src));
const attributes: DOMStringMap = tag ? tag.dataset : {};
const source = tag ? tag.src.split(/[?#]/)[0]! : '';
const file = source.replace(/.*\//, '');
/** The key in the name of the file. */
const fileKey = /^pa-([\da-f-]+)/.exec(file)?.[1];
const hasVariant = (name: string): boolean => file.split('.').includes(name);

/** Reports whether a path matches one of the patterns of a list: ** is any text, * any without /. */
const matches = (path: string, list: string): boolean =>
  list.split(',').some((pattern) => {
    const literals = pattern.trim().split(/(\*+)/);
    const source = literals.map((each) =>
      each[0] === '*' ? (each[1] ? '.*' : '[^/]*') : each.replace(/[^\w/]/g, '\\$&'),
    );
    return RegExp('^' + source.join('') + '/?$').test(path);
  });

/** Reports whether the tag's lists leave page views of a path out. */
const isExcluded = (path: string): unknown =>
  (attributes.exclude && matches(path, attributes.exclude)) || (attributes.include && !matches(path, attributes.include));

/** Reads the event that the classes of an element name. */
const readClasses = (element: Element): Partial<Report> | undefined => {
  let name;
  const m: Properties = {};
  for (const each of element.classList || []) {
    const parts = /^plausible-(?:event|revenue)-(.+)(?:=|--)(.+)/.exec(each);
    if (!parts) continue;
    const value = parts[2]!.replace(/\+/g, ' ');
    if (parts[1] === 'name') name = value;
    else m[parts[1] === 'amount' ? 'value' : parts[1]!] = value;
  }
  return name ? { e: name, m } : undefined;
};

/** Sends the event of the clicked element or of one of three around it. */
const clicked = (click: MouseEvent): void => {
  const around = click.composedPath().slice(0, 4) as Element[];
  // The right button opens a menu, and a form has its own event.
  if (click.button > 1 || around.some((each) => each instanceof HTMLFormElement)) return;
  // As in Plausible's script, the outermost element counts.
  const found = around.reverse().map(readClasses).find(Boolean);
  if (found) report(found);
};

const install = (): void => {
  const stub = window.plausible;
  if (stub?.l) return;

  const domain = attributes.domain;
  let settings: Settings | undefined;

  /** Passes a report through the tag's lists and the page's function. */
  const filter = (original: Report): unknown => {
    if (!original.e && isExcluded(original.p)) return undefined;
    if (!settings!.transformRequest) return original;

    const changed = settings!.transformRequest({
      n: original.e || pageview,
      u: location.origin + original.p,
      d: domain,
      r: original.r,
      p: original.m,
    });
    return (
      changed && {
        ...original,
        e: changed.n !== pageview && changed.n,
        p: changed.u ? pathOf(changed.u) : original.p,
        r: changed.r && stripQuery(changed.r),
        m: changed.p,
      }
    );
  };

  const handleCall = guard((call: Tracked): void => {
    const name = call[0];
    const options = call[1] || {};
    const given: Partial<Report> = { x: 1 };
    const address = options.u || options.url;
    if (address) given.p = pathOf(typeof address === 'function' ? address() : address);

    if (name !== pageview) {
      const custom = settings!.customProperties;
      const revenue = options.revenue;
      given.e = name;
      given.m = {
        ...(typeof custom === 'function' ? custom(name) : custom),
        ...options.meta,
        ...options.props,
        ...(revenue && { value: revenue.amount, currency: revenue.currency }),
      };
    }
    report(given).then(guard(() => options.callback?.({})));
  });

  const begin = (chosen: Settings = {}): void => {
    if (settings) return;
    settings = chosen;

    if (claim()) {
      callAt(chosen.endpoint || attributes.api || (keyFolder(source) || new URL(source).origin) + '/api/event');
      readTag(tag, fileKey, ...(domain || '').split(','));
      if (chosen.hashBasedRouting || hasVariant('hash')) followFragment();

      listen(document, 'click', clicked);
      listen(document, 'auxclick', clicked);
      listen(document, 'submit', (submit: SubmitEvent) => {
        const form = submit.target as HTMLFormElement;
        const found = readClasses(form) || (chosen.formSubmissions && { e: 'form_submission' });
        if (found) report(found);
      });
      start(!hasVariant('manual') && chosen.autoCapturePageviews !== false, '', filter);
    }

    const queued = [...(plausible.q as unknown as Tracked[])];
    plausible.q = { push: handleCall };
    queued.forEach(handleCall);
  };

  const plausible: Plausible = Object.assign((...call: Tracked) => void plausible.q.push(call), {
    init: guard(begin),
    l: true as const,
    q: stub?.q || [],
  });
  window.plausible = plausible;

  // A script with the key in its name, or without a domain, waits for init, as Plausible's does. A
  // page without init was written for the older one.
  if (stub?.o || (!fileKey && (domain || document.readyState === 'complete'))) begin(stub?.o);
  else if (!fileKey) listen(window, 'load', () => begin());
};

guard(install)();
