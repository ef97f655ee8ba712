// What main.js exports to the console's other modules: the core, and Preact. Pages import from here only.
export * from 'preact';
export * from 'preact/hooks';
export { jsx, jsxs } from 'preact/jsx-runtime';
export * from './api';
export * from './choices';
export * from './data';
export * from './dialog';
export * from './form';
export * from './format';
export * from './language';
export * from './path';
export * from './router';
export * from './shell';
export * from './site';
export * from './states';
export * from './store';
export * from './ui';
