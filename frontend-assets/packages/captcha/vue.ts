import { defineComponent, h, onBeforeUnmount, onMounted, shallowRef, watch } from 'vue';
import type { AllowedComponentProps, ComponentCustomProps, VNodeProps } from 'vue';
import { handleOf } from './handle.js';
import type { CaptchaHandle } from './handle.js';
import { render } from './index.js';
import type { Captcha as Widget, Options } from './index.js';

export type { CaptchaHandle };

/** Props of the component. Templates write the callbacks as @verified, @expired and @error. */
export type CaptchaProps = Options;

/** An instance, as a template's ref has it. */
export type CaptchaInstance = CaptchaHandle & {
  $props: VNodeProps & AllowedComponentProps & ComponentCustomProps & CaptchaProps;
};

/**
 * The widget as a component, which exposes its handle. On a server it renders an empty element,
 * which the browser fills, so hydration changes nothing.
 */
export const Captcha: new () => CaptchaInstance = /* @__PURE__ */ defineComponent({
  name: 'TallygateCaptcha',
  props: {
    url: { type: String, required: true },
    sitekey: { type: String, required: true },
    lang: String,
    fieldName: String,
    nonce: String,
  },
  emits: ['verified', 'expired', 'error'],
  setup(props, { emit, expose }) {
    const container = shallowRef<HTMLElement>();
    let widget: Widget | undefined;

    const remove = () => {
      widget?.remove();
      widget = undefined;
    };
    const create = () => {
      remove();
      widget = render(container.value!, {
        ...props,
        onVerified: (token) => emit('verified', token),
        onExpired: () => emit('expired'),
        onError: (reason) => emit('error', reason),
      });
    };
    onMounted(create);
    onBeforeUnmount(remove);

    // The script that is loaded depends on the url.
    watch(() => props.url, create, { flush: 'post' });
    watch(
      () => [props.sitekey, props.lang, props.fieldName] as const,
      ([sitekey, lang, fieldName]) => widget?.update({ sitekey, lang, fieldName }),
    );

    expose(handleOf(() => widget));
    return () => h('div', { ref: container });
  },
}) as unknown as new () => CaptchaInstance;
