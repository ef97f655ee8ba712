// What strict TypeScript must refuse. Only its types are checked.
import { event, identify, init } from '@tallygate/analytics';
import { execute, render } from '@tallygate/captcha';
import type { Reason } from '@tallygate/captcha';

export const refused = (): void => {
  // @ts-expect-error: url is missing
  init({ site: '' });
  // @ts-expect-error: auto is no string
  init({ site: '', url: '', auto: 'off' });
  // @ts-expect-error: a purchase has an id
  event('purchase', { value: 1, currency: 'EUR' });
  // @ts-expect-error: a purchase has properties
  event('purchase');
  // @ts-expect-error: properties are an object
  event('signup', 'newsletter');
  // @ts-expect-error: no plain number
  identify(1);
  // @ts-expect-error: the sitekey is missing
  render(document.body, { url: '' });
  // @ts-expect-error: a string, later
  const token: string = execute({ url: '', sitekey: '' });
  // @ts-expect-error: not a reason
  const reason: Reason = 'tired';
  void [token, reason];
};

export const accepted = (): void => {
  init({ site: '', url: '', auto: false, search: true });
  event('signup');
  event('signup', { newsletter: true });
  event('purchase', { transaction_id: '1', value: 1, currency: 'EUR', items: [{ item_id: '1', quantity: 2 }] });
  identify(null);
  render(document.body, { url: '', sitekey: '', lang: undefined, onError: (reason: Reason) => void reason });
};
