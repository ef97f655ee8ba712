// The script in the place of Umami's: /script.js and /umami.js.
import { stripQuery } from '../svc/address';
import { guard, listen } from '../svc/guard';
import { claim, complete, identifyBy, pathOf, report, start } from './core';
import type { Report } from './core';
import { callAt, findTag, readTag } from './tag';

/** A page view or event in Umami's words, which filters and functions of the page receive. */
interface Payload {
  website?: string | undefined;
  hostname?: string;
  language?: string;
  screen?: string;
  title?: string;
  url?: string;
  referrer?: string | null;
  name?: unknown;
  data?: unknown;
}

interface Umami {
  track(event?: unknown, data?: unknown): Promise<unknown> | undefined;
  identify(id?: unknown, data?: unknown): Promise<unknown> | undefined;
  getSession(): object;
}

declare global {
  interface Window {
    umami?: Umami;
  }
}

const tag = findTag((script) => 'websiteId' in script.dataset);
const settings: DOMStringMap = tag ? tag.dataset : {};
const website = settings.websiteId;
const attribute = 'data-umami-event';

/** Describes a report in Umami's words. */
const payloadOf = (original: Report): Payload => ({
  website,
  hostname: location.hostname,
  language: navigator.language,
  screen: screen.width + 'x' + screen.height,
  title: document.title,
  url: original.p,
  referrer: original.r,
  name: original.e,
  data: original.m,
});

/** Reads what a page gives in Umami's words. */
const reportOf = (given: Payload): Partial<Report> => {
  const read: Partial<Report> = { e: given.name, m: given.data, x: 1 };
  if (given.url) read.p = pathOf(given.url);
  if (given.referrer) read.r = stripQuery(given.referrer);
  return read;
};

/** Passes a report through the function of the page that data-before-send names. */
const beforeSend = async (original: Report): Promise<unknown> => {
  const filter = (window as unknown as Record<string, unknown>)[settings.beforeSend!];
  if (typeof filter !== 'function') return original;
  const changed = (await filter('event', payloadOf(original))) as Payload;
  return changed && { ...original, ...reportOf(changed), x: original.x };
};

/** Sends the event of the clicked element's attributes. */
const clicked = (click: MouseEvent): void => {
  const element = click.composedPath().find((node) => node instanceof Element && node.hasAttribute(attribute)) as
    Element | undefined;
  if (!element) return;
  const data: Record<string, string> = {};
  for (const each of element.attributes)
    if (each.name.startsWith(attribute + '-')) data[each.name.slice(attribute.length + 1)] = each.value;
  report({ e: element.getAttribute(attribute), m: data });
};

const umami: Umami = {
  track: guard((event?: unknown, data?: unknown) => {
    if (typeof event === 'string') return report({ e: event, m: data });
    const payload: unknown = typeof event === 'function' ? event(payloadOf(complete({}))) : event || {};
    return payload ? report(reportOf(payload as Payload)) : Promise.resolve();
  }),
  // The second argument, and an object in the place of the id, are data of a session.
  identify: guard((id?: unknown) => (typeof id === 'object' ? Promise.resolve() : identifyBy(id))),
  getSession: () => ({ website }),
};

/** Starts the face. On a page that another script measures, its functions do nothing. */
const install = (): void => {
  if (!claim()) return void (window.umami = window.umami?.track ? window.umami : umami);
  window.umami = umami;

  callAt((settings.hostUrl || tag!.src.replace(/\/[^/]*([?#].*)?$/, '')).replace(/\/*$/, '/api/send'));
  readTag(tag, website);

  const automatic = settings.autoTrack !== 'false';
  if (automatic) listen(document, 'click', clicked);
  start(
    automatic,
    settings.domains && !settings.domains.split(/[\s,]+/).includes(location.hostname) && 'data-domains',
    settings.beforeSend && beforeSend,
  );
};

guard(install)();
