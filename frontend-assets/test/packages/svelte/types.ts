// What strict TypeScript must refuse. Only its types are checked.
import { Captcha } from '@tallygate/captcha/svelte';
import { mount } from 'svelte';

// @ts-expect-error: the sitekey is missing
export const wrong = () => mount(Captcha, { target: document.body, props: { url: '' } });
