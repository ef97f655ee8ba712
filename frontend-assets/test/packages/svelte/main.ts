import { hydrate, mount } from 'svelte';
import { measure } from '../settings';
import App from './App.svelte';

measure();
const target = document.querySelector('#app')!;
(target.firstChild ? hydrate : mount)(App, { target });
