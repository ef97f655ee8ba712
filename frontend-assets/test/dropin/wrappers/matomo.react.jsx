// A page with @jonkoops/matomo-tracker-react: its provider, and the functions of its hook.
import { useEffect } from 'react';
import { createRoot } from 'react-dom/client';
import { createInstance, MatomoProvider, useMatomo } from '@jonkoops/matomo-tracker-react';

const app = document.getElementById('app');
const { url, site } = app.dataset;

function Page() {
  const matomo = useMatomo();
  window.matomo = matomo;
  useEffect(() => matomo.trackPageView(), []);
  return (
    <button onClick={() => matomo.trackEvent({ category: 'Signup Button!', action: 'click', name: 'head', value: 3 })}>
      Go
    </button>
  );
}

createRoot(app).render(
  <MatomoProvider
    value={createInstance({ urlBase: url, siteId: Number(site), heartBeat: { active: true, seconds: 10 } })}
  >
    <Page />
  </MatomoProvider>,
);
