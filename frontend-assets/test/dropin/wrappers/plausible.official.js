// A page with @plausible-analytics/tracker, which contains its own code.
import { init, track } from '@plausible-analytics/tracker';

const { url, site } = document.getElementById('app').dataset;
window.track = track;
init({ domain: site, endpoint: url + '/api/event', outboundLinks: true, fileDownloads: true, formSubmissions: true });
