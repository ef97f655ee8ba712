import { createSSRApp } from 'vue';
import { renderToString } from 'vue/server-renderer';
import { measure } from '../settings';
import App from './App.vue';

measure();
renderToString(createSSRApp(App)).then(console.log);
