export { default as Captcha } from './Captcha.svelte';
export type { CaptchaHandle, CaptchaProps } from './Captcha.svelte';
