// The script that stands in for reCAPTCHA's (/recaptcha/api.js and /recaptcha/enterprise.js).
import { install } from './loader';
import type { Loader } from './loader';

/** Obtains a token for a sitekey with a widget of its own, which is not visible, as version 3 does. */
const obtain = (loader: Loader, sitekey: string): Promise<string> => {
  const holder = document.createElement('div');
  document.documentElement.append(holder);
  const widget = loader.find(loader.render(holder, { sitekey, size: 'invisible' }))!;
  return widget.execute().finally(() => {
    widget.remove();
    holder.remove();
  });
};

install(
  {
    name: 'grecaptcha',
    path: '/recaptcha/',
    base: '..',
    mark: 'g-recaptcha',
    id: (n) => n,
    // Pages read this element by its id or class. It belongs to no form, because a form finds its fields
    // by their ids, too, and the widget's field has this name.
    twin(input, n) {
      input.setAttribute('form', '');
      input.id = (input.className = 'g-recaptcha-response') + (n ? '-' + n : '');
    },
  },
  (loader) => {
    const api: Record<string, unknown> = {
      ready: loader.ready,
      render: loader.render,
      // A text that is no widget's is a sitekey.
      execute: (target?: unknown) =>
        typeof target === 'string' && !loader.find(target) ? obtain(loader, target) : loader.execute(target),
      getResponse: loader.method('response', ''),
      reset: loader.method('reset'),
    };
    api.enterprise = api;
    return api;
  },
);
