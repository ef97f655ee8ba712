// The script that stands in for hCaptcha's (/1/api.js).
import { install } from './loader';

install(
  {
    name: 'hcaptcha',
    src: /^[^?#]*\/1\/api\.js([?#]|$)/,
    base: '..',
    mark: 'h-captcha',
    id: (n) => 'hcaptcha-' + n,
    // Where the page uses reCAPTCHA's script, too, the name belongs to its widget.
    field: 'textarea',
    markField(field, n) {
      field.id = 'h-captcha-response-hcaptcha-' + n;
    },
    secondName: (query) =>
      'grecaptcha' in window || query.get('recaptchacompat') === 'off' ? '' : 'g-recaptcha-response',
  },
  (loader) => ({
    render: loader.render,
    execute(target?: unknown, options?: { async?: boolean } | null) {
      const result = loader.execute(target);
      return options && options.async ? result.then((response) => ({ response, key: '' })) : undefined;
    },
    getResponse: loader.method('response', ''),
    getRespKey: () => '',
    setData() {},
    reset: loader.method('reset'),
    // There is no window that could be closed.
    close() {},
    remove: loader.method('remove'),
  }),
);
