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
    src: /^[^?#]*\/recaptcha\/(api|enterprise)\.js([?#]|$)/,
    base: '..',
    mark: 'g-recaptcha',
    id: (n) => n,
    field: 'textarea',
    markField(field, n) {
      field.id = (field.className = 'g-recaptcha-response') + (n ? '-' + n : '');
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
