// What main.js exports to the console's other modules: the core, and Preact. Their imports of a file of the
// core, or of Preact, become imports of main.js.
export * from 'preact';
export * from 'preact/hooks';
export { jsx, jsxs } from 'preact/jsx-runtime';
export * from './core/api';
export * from './core/choices';
export * from './core/data';
export * from './core/dialog';
export * from './core/enter';
export * from './core/form';
export * from './core/format';
export * from './core/language';
export * from './core/metrics';
export * from './core/modules';
export * from './core/path';
export * from './core/router';
export * from './core/shell';
export * from './core/site';
export * from './core/source';
export * from './core/states';
export * from './core/store';
export * from './core/ui';
export * from './core/values';
export * from './core/view';
