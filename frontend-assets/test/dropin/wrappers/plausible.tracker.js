// A page with plausible-tracker, which contains its own code.
import Plausible from 'plausible-tracker';

const { url, site } = document.getElementById('app').dataset;
const { enableAutoPageviews, trackEvent } = Plausible({ domain: site, apiHost: url });
window.track = trackEvent;
enableAutoPageviews();
