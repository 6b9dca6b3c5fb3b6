/**
 * The address of a view: what is shown, where, and with which filter, so that it can be linked.
 *
 *     #/extension/demo/instance/run-1/hp?tab=history&q=gold
 */

import { computed, signal } from '@preact/signals';

export interface View {
  /** One of `home`, `extension`, `feed`, `server`, `api`. */
  page: string;
  extension: string;
  /** The part of the extension that is shown: '', `character`, `instance` or `chat`. */
  kind: string;
  id: string;
  key: string | null;
  /** tab, q (search), at, from, to … */
  query: Record<string, string>;
}

export const HOME: View = { page: 'home', extension: '', kind: '', id: '', key: null, query: {} };
const PAGES = new Set(['feed', 'server', 'api']);
const KINDS = new Set(['character', 'instance', 'chat']);

export function parseAddress(hash: string): View {
  const [path = '', search = ''] = splitOnce(hash.replace(/^#?\/?/, ''), '?');
  const parts = path.split('/').map(decode);
  const query = Object.fromEntries(new URLSearchParams(search));
  const [page = '', extension = '', kind = '', id = '', key] = parts;
  if (PAGES.has(page)) return { ...HOME, page, query };
  if (page !== 'extension' || !extension) return { ...HOME, query };
  if (!KINDS.has(kind) || !id) return { ...HOME, page, extension, query };
  return { page, extension, kind, id, key: key ?? null, query };
}

export function formatAddress(view: View): string {
  const parts = [view.page === 'home' ? '' : view.page];
  if (view.page === 'extension') {
    parts.push(view.extension);
    if (view.kind) parts.push(view.kind, view.id);
    if (view.kind && view.key !== null) parts.push(view.key);
  }
  const kept = Object.entries(view.query).filter(([, value]) => value !== '');
  const search = new URLSearchParams(kept).toString();
  return `#/${parts.map(encodeURIComponent).join('/')}${search ? `?${search}` : ''}`;
}

function splitOnce(text: string, separator: string): [string, string] {
  const at = text.indexOf(separator);
  return at < 0 ? [text, ''] : [text.slice(0, at), text.slice(at + 1)];
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

const hash = signal(globalThis.location?.hash ?? '');
export const view = computed(() => parseAddress(hash.value));

export function listen(): void {
  addEventListener('hashchange', () => {
    hash.value = location.hash;
  });
}

/** Show another view; replacing the address keeps the way back short. */
export function go(to: Partial<View>, how: 'push' | 'replace' = 'push'): void {
  const next = formatAddress({ ...HOME, page: 'extension', query: {}, ...to });
  if (next === location.hash) return;
  if (how === 'replace') {
    history.replaceState(null, '', next);
    hash.value = next;
  } else {
    location.hash = next;
  }
}

/** Change the query of this view. */
export function setQuery(change: Record<string, string>, how: 'push' | 'replace' = 'replace'): void {
  go({ ...view.value, query: { ...view.value.query, ...change } }, how);
}
