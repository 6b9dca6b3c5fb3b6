import { render } from 'preact';
import { listen } from './data/address.ts';
import { App } from './app.tsx';
import { begin, setTheme, theme } from './data/session.ts';

setTheme(theme.value);
listen();
void begin();
const root = document.getElementById('app');
if (root) render(<App />, root);
