import type { Campaign } from './payload';

/**
 * Returns the page's path as it is sent. The server truncates it at the same length; doing it here
 * keeps the message under its size limit.
 */
export const currentPath = (): string => location.pathname.slice(0, 2048);

/**
 * Returns an address without query and fragment, or null when nothing remains. It is truncated so
 * that properties of 4 KB still fit into the same message.
 */
export const stripQuery = (address: string): string | null => address.split(/[?#]/)[0]!.slice(0, 1024) || null;

/** Returns a parameter of the page's address without surrounding blanks; empty if it is missing. */
export const queryParameter = (name: string): string => (new URLSearchParams(location.search).get(name) || '').trim();

/** Reads the campaign values from the page's address. */
export const readCampaign = (): Campaign => {
  const found: Record<string, string> = {};
  for (const name of 'utm_source utm_medium utm_campaign utm_content utm_term gclid gbraid wbraid fbclid msclkid'.split(
    ' ',
  )) {
    // Ten values of this length fit into a message together with the longest path and referrer.
    const value = queryParameter(name).slice(0, 400);
    const key = name.replace('utm_', '');
    if (value) found[key] = key === name ? value : value.toLowerCase();
  }
  return found;
};
