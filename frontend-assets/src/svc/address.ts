import type { Campaign } from './payload';

/**
 * The page's path, as it is sent. The server would cut it at the same length; here it keeps the
 * message under its limit.
 */
export const path = (): string => location.pathname.slice(0, 2048);

/**
 * An address up to its path, or null when there is none. Shortened so that properties of 4 KB still
 * fit beside it.
 */
export const cut = (address: string): string | null => address.split(/[?#]/)[0]!.slice(0, 1024) || null;

/** A parameter of the page's address; empty when there is none. */
export const parameter = (name: string): string => (new URLSearchParams(location.search).get(name) || '').trim();

/** The campaign values of the page's address. */
export const campaign = (): Campaign => {
  const found: Record<string, string> = {};
  for (const name of 'utm_source utm_medium utm_campaign utm_content utm_term gclid gbraid wbraid fbclid msclkid'.split(' ')) {
    // Ten values of this length still fit beside the longest path and referrer.
    const value = parameter(name).slice(0, 400);
    const key = name.replace('utm_', '');
    if (value) found[key] = key === name ? value : value.toLowerCase();
  }
  return found;
};
