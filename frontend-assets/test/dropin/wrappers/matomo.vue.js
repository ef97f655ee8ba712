// A page with vue-matomo, which counts the routes of a router.
import { createApp, h } from 'vue';
import { createRouter, createWebHistory, RouterView } from 'vue-router';
import VueMatomo from 'vue-matomo';

const { url, site } = document.getElementById('app').dataset;
const router = createRouter({
  history: createWebHistory(),
  routes: [{ path: '/:path(.*)', component: { render: () => h('p', 'Route') } }],
});
window.router = router;

createApp({ render: () => h(RouterView) })
  .use(router)
  .use(VueMatomo, {
    host: url,
    siteId: site,
    router,
    requireConsent: false,
    disableCookies: true,
    enableHeartBeatTimer: true,
  })
  .mount('#app');
