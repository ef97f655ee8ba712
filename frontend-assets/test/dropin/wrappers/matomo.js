// A page with @datapunt/matomo-tracker-js, which adds the script.
import MatomoTracker from '@datapunt/matomo-tracker-js';

const { url, site } = document.getElementById('app').dataset;
window.tracker = new MatomoTracker({ urlBase: url, siteId: site });
window.tracker.trackPageView({ documentTitle: 'Secret' });
