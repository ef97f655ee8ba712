// A form with @hcaptcha/react-hcaptcha: a visible widget, and an invisible one that gets a token on demand.
import { createRef } from 'react';
import { createRoot } from 'react-dom/client';
import HCaptcha from '@hcaptcha/react-hcaptcha';

const { sitekey, api } = document.getElementById('app').dataset;
const visible = createRef();
const invisible = createRef();
window.log = [];
window.again = () => visible.current.resetCaptcha();
window.execute = () => invisible.current.execute({ async: true }).then(({ response }) => response);
window.value = () => visible.current.getResponse();

createRoot(document.getElementById('app')).render(
  <form>
    <input name="email" />
    <HCaptcha ref={visible} apihost={api} sentry={false} sitekey={sitekey} onVerify={(token) => window.log.push(token)} />
    <HCaptcha ref={invisible} apihost={api} sentry={false} sitekey={sitekey} size="invisible" />
  </form>,
);
