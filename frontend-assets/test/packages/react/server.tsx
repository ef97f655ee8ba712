import { StrictMode } from 'react';
import { renderToString } from 'react-dom/server';
import { measure } from '../settings';
import { App } from './app';

measure();
console.log(
  renderToString(
    <StrictMode>
      <App />
    </StrictMode>,
  ),
);
