// Vue 3. In a single-file component, the template and the options are the same.
import { createApp, ref } from 'vue/dist/vue.esm-bundler.js'

/** The invisible captcha. v-once keeps Vue from changing the widget's elements. */
const Captcha = {
  props: { sitekey: { type: String, required: true } },
  template: '<div v-once class="service-captcha" :data-sitekey="sitekey"></div>',
}

const Contact = {
  components: { Captcha },
  props: { sitekey: { type: String, required: true } },
  setup() {
    const result = ref('')
    async function send(event) {
      const form = event.currentTarget
      // Read the form when it is sent: the token is renewed before it expires.
      const response = await fetch('/contact', { method: 'POST', body: new URLSearchParams(new FormData(form)) })
      window.serviceCaptcha?.reset(form) // a token works once
      window.svc?.('event', 'signup', { accepted: response.ok })
      result.value = response.ok ? 'Sent' : 'Please send it again'
    }
    return { result, send }
  },
  template: `<form @submit.prevent="send">
    <textarea name="message"></textarea>
    <Captcha :sitekey="sitekey" />
    <button id="send">Send</button>
    <output>{{ result }}</output>
  </form>`,
}

const root = document.querySelector('#app')
createApp(Contact, { sitekey: root.dataset.sitekey }).mount(root)
