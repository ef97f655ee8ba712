// A page with next-plausible: its provider adds the script and calls init.
import { createRoot } from 'react-dom/client';
import PlausibleProvider, { usePlausible } from 'next-plausible';

const app = document.getElementById('app');
const { src, init } = app.dataset;

function Page() {
  window.track = usePlausible();
  return <button className="plausible-event-name=Signup+Button plausible-event-plan=pro">Go</button>;
}

createRoot(app).render(
  <PlausibleProvider src={src} init={JSON.parse(init || '{}')}>
    <Page />
  </PlausibleProvider>,
);
