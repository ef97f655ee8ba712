// A form with vue-recaptcha: a visible widget, and an invisible one that gets a token on demand.
import { createApp, h, ref } from 'vue';
import { VueRecaptcha } from 'vue-recaptcha';

const app = document.getElementById('app');
const { sitekey, host } = app.dataset;
const visible = ref();
const invisible = ref();
let given = () => {};
window.log = [];
window.again = () => visible.value.reset();
window.execute = () =>
  new Promise((resolve) => {
    given = resolve;
    invisible.value.execute();
  });
window.value = () => window.grecaptcha.getResponse(visible.value.widgetId);

createApp({
  render: () =>
    h('form', [
      h('input', { name: 'email' }),
      h(VueRecaptcha, { ref: visible, sitekey, recaptchaHost: host, onVerify: (token) => window.log.push(token) }),
      h(VueRecaptcha, { ref: invisible, sitekey, recaptchaHost: host, size: 'invisible', onVerify: (token) => given(token) }),
    ]),
}).mount(app);
