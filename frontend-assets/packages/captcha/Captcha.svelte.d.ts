import type { Component } from 'svelte';
import type { CaptchaHandle } from './handle.js';
import type { Options } from './index.js';

export type { CaptchaHandle };

/** Props of the component. */
export type CaptchaProps = Options;

/** The widget as a component, which exports its handle. */
declare const Captcha: Component<CaptchaProps, CaptchaHandle>;
export default Captcha;
