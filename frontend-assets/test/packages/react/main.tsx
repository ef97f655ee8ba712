import { StrictMode } from 'react';
import { createRoot, hydrateRoot } from 'react-dom/client';
import { measure } from '../settings';
import { App } from './app';

measure();
const root = document.querySelector('#app')!;
const app = (
  <StrictMode>
    <App />
  </StrictMode>
);
if (root.firstChild) hydrateRoot(root, app);
else createRoot(root).render(app);
