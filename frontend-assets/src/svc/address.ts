import type { Campaign } from './payload';

/** The page's path, as it is sent. The server would cut it at the same length; here it keeps the message under its limit. */
export const path = (): string => location.pathname.slice(0, 2048);

/** An address up to its path, or null when there is none. Shortened so that properties of 4 KB still fit beside it. */
export const cut = (address: string): string | null => address.split(/[?#]/)[0]!.slice(0, 1024) || null;

/** The page's campaign values, or undefined when its address has none. */
export const campaign = (): Campaign | undefined => {
  const parameters = new URLSearchParams(location.search);
  const found: Record<string, string> = {};
  for (const name of 'utm_source utm_medium utm_campaign utm_content utm_term gclid gbraid wbraid fbclid msclkid'.split(' ')) {
    // Ten values of this length still fit into the 8 KB of a message.
    const value = (parameters.get(name) || '').slice(0, 400);
    const key = name.replace('utm_', '');
    if (value) found[key] = key === name ? value : value.toLowerCase();
  }
  return Object.keys(found).length ? found : undefined;
};
