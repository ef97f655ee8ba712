// The script that stands in for Turnstile's (/turnstile/v0/api.js).
import { install } from './loader';
import type { Given } from './values';

install(
  {
    name: 'turnstile',
    src: /^[^?#]*\/turnstile\/v0\/api\.js([?#]|$)/,
    base: '../..',
    mark: 'cf-turnstile',
    eager: true,
    id: (n) => 'turnstile-' + n,
    field: 'input',
    markField(field, n) {
      field.id = `turnstile-${n}_response`;
    },
  },
  (loader) => ({
    ready: loader.ready,
    render: loader.render,
    implicitRender: loader.renderMarked,
    execute(target?: unknown, given?: Given) {
      if (given && !loader.find(target)) loader.render(target, { execution: 'execute', ...given });
      void loader.execute(target);
    },
    getResponse: loader.method('response'),
    isExpired: loader.method('isExpired', false),
    reset: loader.method('reset'),
    remove: loader.method('remove'),
  }),
);
