// A form with @marsidev/react-turnstile: a widget, and one that gets a token on demand.
import { createRef } from 'react';
import { createRoot } from 'react-dom/client';
import { Turnstile } from '@marsidev/react-turnstile';

const { sitekey } = document.getElementById('app').dataset;
const visible = createRef();
const invisible = createRef();
window.log = [];
window.again = () => visible.current.reset();
window.execute = () => {
  invisible.current.execute();
  return invisible.current.getResponsePromise();
};
window.value = () => visible.current.getResponse();

createRoot(document.getElementById('app')).render(
  <form>
    <input name="email" />
    <Turnstile ref={visible} id="visible" siteKey={sitekey} onSuccess={(token) => window.log.push(token)} />
    <Turnstile ref={invisible} id="invisible" siteKey={sitekey} options={{ execution: 'execute' }} />
  </form>,
);
