// A page with @jonkoops/matomo-tracker-react: its provider, and the functions of its hook.
import { useEffect } from 'react';
import { createRoot } from 'react-dom/client';
import { createInstance, MatomoProvider, useMatomo } from '@jonkoops/matomo-tracker-react';

const app = document.getElementById('app');
const { url, site } = app.dataset;

function Page() {
  const matomo = useMatomo();
  // It calls trackLink for clicks on outbound links.
  matomo.enableLinkTracking();
  useEffect(() => matomo.trackPageView(), []);
  return (
    <>
      <button
        onClick={() => matomo.trackEvent({ category: 'Signup Button!', action: 'click', name: 'head', value: 3 })}
      >
        Go
      </button>
      <a href="http://other.test/x?secret" onClick={(click) => click.preventDefault()}>
        <b>Away</b>
      </a>
    </>
  );
}

const heartBeat = { active: true, seconds: 10 };
const instance = createInstance({ urlBase: url, siteId: Number(site), heartBeat, linkTracking: false });
createRoot(app).render(
  <MatomoProvider value={instance}>
    <Page />
  </MatomoProvider>,
);
