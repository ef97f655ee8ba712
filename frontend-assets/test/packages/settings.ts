// The addresses and keys of the instance, which the test passes to Vite, and what all apps do.
import { event, init } from '@tallygate/analytics';

export const url: string = import.meta.env['VITE_TALLYGATE'];
export const sitekey: string = import.meta.env['VITE_SITEKEY'];

/** Starts the measurement of an app. */
export const measure = (): void => init({ site: import.meta.env['VITE_SITE'], url });

/** Sends a form or a token, and returns the server's answer. */
export const send = async (body: FormData | string): Promise<string> => {
  const fields = typeof body === 'string' ? [['service-captcha-response', body]] : [...body].map(([k, v]) => [k, String(v)]);
  const response = await fetch('/contact', { method: 'POST', body: new URLSearchParams(fields) });
  event('signup', { accepted: response.ok });
  return response.text();
};
