// Imports the packages in Node, as a server does, and calls what an app calls in both places.
import { event, identify, init, pageview } from '@tallygate/analytics';
import * as captcha from '@tallygate/captcha';
import { Captcha as ReactCaptcha } from '@tallygate/captcha/react';
import { Captcha as VueCaptcha } from '@tallygate/captcha/vue';

const before = Object.keys(globalThis).length;
init({ site: '0123456789abcdef0123456789abcdef', url: 'https://stats.example.com' });
event('signup');
pageview();
identify(null);
console.log(Object.keys(globalThis).length - before, typeof globalThis.svc, Object.keys(captcha).sort().join(' '));
console.log(typeof ReactCaptcha, typeof VueCaptcha);
