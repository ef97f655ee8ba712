import { render } from 'svelte/server';
import { measure } from '../settings';
import App from './App.svelte';

measure();
console.log(render(App).body);
