import { defineConfig } from 'vite';

// ENTRY builds one module alone, for the tests of what an app contains.
const entry = process.env.ENTRY;

export default defineConfig({
  build: entry ? { modulePreload: false, rollupOptions: { input: entry, output: { entryFileNames: 'app.js' } } } : {},
});
