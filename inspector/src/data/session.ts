/** The state that the whole page shares: who asks, what they may do, and what was said to them. */

import { computed, signal } from '@preact/signals';
import { explain, Refusal, read, request, token, useSillyTavern } from './api.ts';
import type { Caller, Extension } from './records.ts';

export const caller = signal<Caller | null>(null);
export const extensions = signal<Extension[]>([]);
export const version = signal('');
export const failure = signal('');
/** Nothing can be changed while this is on. */
export const readOnly = signal(false);

export const needsToken = computed(() => caller.value?.tokenNeeded ?? false);
export const isAdmin = computed(() => caller.value?.admin ?? false);

/** True if this person may change the extension, and wants to be able to. */
export function mayWrite(extension: string): boolean {
  return !readOnly.value && (isAdmin.value || (caller.value?.extensions.includes(extension) ?? false));
}

let asked = false;

/** Ask the server who we are and which extensions there are. */
export async function begin(): Promise<void> {
  try {
    const [health, found] = await Promise.all([read<{ version: string }>('healthz'), read<Caller>('caller')]);
    version.value = health.version;
    useSillyTavern(found.bridge);
    if (!asked && !found.tokenNeeded) {
      asked = true;
      readOnly.value = found.bridge;
    }
    caller.value = found;
    failure.value = '';
    if (!found.tokenNeeded) await loadExtensions();
  } catch (error) {
    failure.value = explain(error).message;
  }
}

export async function loadExtensions(): Promise<void> {
  const found = caller.value;
  if (!found) return;
  if (found.admin) extensions.value = await read<Extension[]>('extensions');
  else {
    const again = await read<Caller>('caller');
    extensions.value = again.extensions.map((id) => ({ id, status: 'ok' }));
  }
}

/** Take a token, if the server knows it. */
export async function giveToken(text: string): Promise<string> {
  token.value = text.trim();
  try {
    await request('GET', 'caller');
  } catch (error) {
    token.value = '';
    return error instanceof Refusal && error.status === 401
      ? 'The server does not know this token.'
      : explain(error).message;
  }
  await begin();
  return '';
}

export interface Notice {
  id: number;
  text: string;
  kind: 'good' | 'bad';
  action?: { label: string; run: () => Promise<void> };
}

export const notices = signal<Notice[]>([]);
let counter = 0;
const SHOWN_MS = 12_000;

export function say(text: string, action?: Notice['action'], kind: Notice['kind'] = 'good'): void {
  const id = ++counter;
  notices.value = [...notices.value.slice(-2), { id, text, kind, action }];
  setTimeout(() => dismiss(id), SHOWN_MS);
}

export function sayFailure(error: unknown): void {
  const { message, hint } = explain(error);
  say(hint ? `${message} ${hint}` : message, undefined, 'bad');
}

export function dismiss(id: number): void {
  notices.value = notices.value.filter((each) => each.id !== id);
}

export type Theme = 'system' | 'light' | 'dark';
const THEME = 'valuetracker.theme';

export const theme = signal<Theme>(kept());

function kept(): Theme {
  try {
    const found = localStorage.getItem(THEME);
    return found === 'light' || found === 'dark' ? found : 'system';
  } catch {
    return 'system';
  }
}

export function setTheme(to: Theme): void {
  theme.value = to;
  document.documentElement.dataset.theme = to;
  try {
    localStorage.setItem(THEME, to);
  } catch {
    // A browser may forbid it: then the choice lasts as long as the page.
  }
}
