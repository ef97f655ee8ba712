// A form with react-google-recaptcha: a visible widget, and an invisible one that gets a token on demand.
import { createRef } from 'react';
import { createRoot } from 'react-dom/client';
import ReCAPTCHA from 'react-google-recaptcha';

const { sitekey } = document.getElementById('app').dataset;
const visible = createRef();
const invisible = createRef();
window.log = [];
window.again = () => visible.current.reset();
window.execute = () => invisible.current.executeAsync();
window.value = () => visible.current.getValue();

createRoot(document.getElementById('app')).render(
  <form>
    <input name="email" />
    <ReCAPTCHA ref={visible} sitekey={sitekey} onChange={(token) => window.log.push(token)} />
    <ReCAPTCHA ref={invisible} sitekey={sitekey} size="invisible" />
  </form>,
);
