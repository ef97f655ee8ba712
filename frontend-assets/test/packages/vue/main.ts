import { createApp, createSSRApp } from 'vue';
import { measure } from '../settings';
import App from './App.vue';

measure();
const root = document.querySelector('#app')!;
(root.firstChild ? createSSRApp(App) : createApp(App)).mount(root);
