// A page with @jaseeey/vue-umami-plugin and a router. The plugin turns off page views at load.
import { createApp, h } from 'vue';
import { createRouter, createWebHistory, RouterView } from 'vue-router';
import { identifyUmamiSession, trackUmamiEvent, trackUmamiPageView, VueUmamiPlugin } from '@jaseeey/vue-umami-plugin';

const { url, site, auto } = document.getElementById('app').dataset;
const router = createRouter({
  history: createWebHistory(),
  routes: [{ path: '/:path(.*)', component: { render: () => h('p', 'Route') } }],
});
Object.assign(window, { router, identifyUmamiSession, trackUmamiEvent, trackUmamiPageView });

createApp({ render: () => h(RouterView) })
  .use(VueUmamiPlugin({ scriptSrc: url + '/script.js', websiteID: site, autoTrack: auto === '' || undefined, router }))
  .use(router)
  .mount('#app');
// The plugin keeps this until the script is there.
trackUmamiEvent('legacy', { early: true });
