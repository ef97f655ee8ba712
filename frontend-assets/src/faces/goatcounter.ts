// The script in the place of GoatCounter's: /count.js.
import { stripQuery } from '../svc/address';
import { guard, listen } from '../svc/guard';
import { claim, pathOf, report, start } from './core';
import type { Report } from './core';
import { callAt, endpoint, findTag, readTag } from './tag';

/** A value, or a function of the default. null sends nothing. */
type Choice = string | null | ((original: string | null) => string | null);

/** What a page says about a page view or an event. The path of an event is its name. */
interface Variables {
  path?: Choice | undefined;
  referrer?: Choice | undefined;
  title?: unknown;
  event?: unknown;
}

interface Settings extends Variables {
  no_onload?: unknown;
  no_events?: unknown;
  allow_frame?: unknown;
  endpoint?: string;
}

interface GoatCounter extends Settings {
  count(variables?: Variables): void;
  url(variables?: Variables): string;
  get_data(variables?: Variables): object;
  filter(): string | false;
  get_query(name: string): string | undefined;
  bind_events(): void;
  visit_count(): void;
}

declare global {
  interface Window {
    goatcounter?: GoatCounter;
  }
}

const tag = findTag((script) => 'goatcounter' in script.dataset || /\/count\.js/.test(script.src));
const attributes: DOMStringMap = tag ? tag.dataset : {};
const bound = new WeakSet<Element>();

/** Returns the path of the page, or of the page on the same host that it names as the original. */
const pathOfPage = (): string => {
  const canonical = document.querySelector<HTMLLinkElement>('link[rel=canonical][href]');
  const host = (address: URL | Location) => address.hostname.replace(/^www\./, '');
  const address = canonical && new URL(canonical.href);
  return pathOf(address && host(address) === host(location) ? address : location);
};

/** Returns the reason why pages in frames send nothing. */
const frame = (settings: Settings) => !settings.allow_frame && parent !== window && 'frame';

const install = (): void => {
  const claimed = claim();
  if (!claimed && window.goatcounter?.count) return;

  const settings = guard(JSON.parse)(attributes.goatcounterSettings || '{}') as Settings;
  const goatcounter = (window.goatcounter = Object.assign(window.goatcounter || ({} as GoatCounter), settings));

  /** Returns what the page says now, what its settings say, or the default. */
  const choose = (variables: Variables, key: 'path' | 'referrer', original: string | null): string | null => {
    const choice = variables[key] === undefined ? goatcounter[key] : variables[key];
    return typeof choice === 'function' ? choice(original || document.referrer) : choice === undefined ? original : choice;
  };

  /** Reads what the page says now, and its settings otherwise. undefined: nothing is sent. */
  const read = (variables: Variables = {}): Partial<Report> | undefined => {
    const chosen = choose(variables, 'path', pathOfPage());
    if (chosen === null) return undefined;

    const event = variables.event === undefined ? goatcounter.event : variables.event;
    const given: Partial<Report> = event ? { e: chosen } : { p: pathOf(chosen) };
    const from = choose(variables, 'referrer', null);
    if (from) given.r = stripQuery(from);
    return given;
  };

  const dataOf = (variables?: Variables) => {
    const given = read(variables) || {};
    return { p: given.e || given.p, r: given.r, e: !!given.e };
  };

  const bindEvents = (): void => {
    for (const element of document.querySelectorAll<HTMLElement>('[data-goatcounter-click]')) {
      if (bound.has(element)) continue;
      bound.add(element);
      const clicked = () => {
        const path = element.dataset.goatcounterClick || (element as HTMLInputElement).name || element.id;
        goatcounter.count({ event: true, path, referrer: element.dataset.goatcounterReferrer });
      };
      element.addEventListener('click', guard(clicked));
    }
  };

  Object.assign(goatcounter, {
    count: guard((variables?: Variables) => {
      const given = read(variables);
      if (given) report({ x: 1, ...given });
    }),
    filter: () => frame(goatcounter),
    get_data: guard(dataOf),
    get_query: (name: string) => new URLSearchParams(location.search).get(name) || undefined,
    url: guard((variables?: Variables) => endpoint + '?p=' + encodeURIComponent(dataOf(variables).p as string)),
    visit_count() {},
    bind_events: guard(bindEvents),
  });
  if (!claimed) return;

  callAt(attributes.goatcounter || goatcounter.endpoint || tag!.src.replace(/\.js\b.*/, ''));
  readTag(tag);
  start(!goatcounter.no_onload, frame(goatcounter), (original) => {
    // An automatic page view, at load or of a route, has the path that the page's settings name.
    if (original.e || original.x) return original;
    const given = read();
    return given && { ...original, ...given };
  });

  if (goatcounter.no_events) return;
  if (document.readyState === 'loading') listen(document, 'DOMContentLoaded', bindEvents);
  else bindEvents();
};

guard(install)();
