// A page with @danielgtmn/umami-react: the component that adds the script, and the functions of its hook.
import { createRoot } from 'react-dom/client';
import UmamiAnalytics, { useUmami } from '@danielgtmn/umami-react';

const app = document.getElementById('app');
const { url, site, lazy } = app.dataset;

function Page() {
  window.hook = useUmami();
  return (
    <>
      <UmamiAnalytics url={url} websiteId={site} lazyLoad={lazy === ''} domains={['shop.test', 'www.shop.test']} />
      <button data-umami-event="Signup Button!" data-umami-event-plan="pro">
        Go
      </button>
    </>
  );
}

createRoot(app).render(<Page />);
