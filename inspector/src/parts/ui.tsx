/** The small parts that every view is made of. */

import type { ComponentChildren, JSX } from 'preact';
import { useEffect, useId, useRef } from 'preact/hooks';
import { formatAddress, HOME, type View } from '../data/address.ts';
import { errorText } from '../data/resource.ts';
import { say } from '../data/session.ts';

const PATHS: Record<string, string> = {
  extension: 'M4 5h7v6H4zM13 5h7v6h-7zM4 13h7v6H4zM13 13h7v6h-7z',
  group: 'M3 6h6l2 2h10v11H3z',
  character: 'M12 12a4 4 0 1 0 0-8 4 4 0 0 0 0 8zM4 20c1-4 4-6 8-6s7 2 8 6',
  instance: 'M5 4h14v16H5zM8 8h8M8 12h8M8 16h5',
  chat: 'M4 5h16v11H9l-5 4z',
  key: 'M9 4 7 20M17 4l-2 16M4 9h17M3 15h17',
  feed: 'M3 12h4l3-7 4 14 3-7h4',
  server: 'M4 4h16v7H4zM4 13h16v7H4zM8 7.5h.01M8 16.5h.01',
  api: 'M8 7l-5 5 5 5M16 7l5 5-5 5M13 5l-2 14',
  theme: 'M12 3a9 9 0 1 0 0 18zM12 3a9 9 0 0 1 0 18',
  menu: 'M4 6h16M4 12h16M4 18h16',
  chevron: 'M9 6l6 6-6 6',
  close: 'M6 6l12 12M18 6 6 18',
  copy: 'M8 8h12v12H8zM4 16V4h12',
  search: 'M11 18a7 7 0 1 0 0-14 7 7 0 0 0 0 14zM16 16l5 5',
};

export function Icon({ name }: { name: string }) {
  return (
    <svg class="icon" viewBox="0 0 24 24" aria-hidden="true">
      <path d={PATHS[name] ?? ''} />
    </svg>
  );
}

type ButtonProps = JSX.IntrinsicElements['button'] & { kind?: 'main' | 'quiet' | 'danger' };

export function Button({ kind, class: extra, children, ...rest }: ButtonProps) {
  return (
    <button type="button" {...rest} class={`button ${kind ?? ''} ${(extra as string | undefined) ?? ''}`}>
      {children}
    </button>
  );
}

export function Link({ to, children, ...rest }: { to: Partial<View>; children: ComponentChildren; class?: string }) {
  return (
    <a href={formatAddress({ ...HOME, page: 'extension', query: {}, ...to })} {...rest}>
      {children}
    </a>
  );
}

export interface Tab {
  id: string;
  label: string;
}

export function Tabs({
  tabs,
  current,
  onPick,
  label,
}: {
  tabs: Tab[];
  current: string;
  onPick: (id: string) => void;
  label: string;
}) {
  const walk = (event: KeyboardEvent): void => {
    const step = event.key === 'ArrowRight' ? 1 : event.key === 'ArrowLeft' ? -1 : 0;
    if (!step) return;
    event.preventDefault();
    const at = tabs.findIndex((each) => each.id === current);
    const next = tabs[(at + step + tabs.length) % tabs.length];
    if (!next) return;
    onPick(next.id);
    const list = event.currentTarget as HTMLElement;
    requestAnimationFrame(() => list.querySelector<HTMLElement>('[aria-selected="true"]')?.focus());
  };
  return (
    <div class="tabs" role="tablist" aria-label={label} onKeyDown={walk}>
      {tabs.map((each) => (
        <button
          type="button"
          role="tab"
          key={each.id}
          aria-selected={each.id === current}
          tabIndex={each.id === current ? 0 : -1}
          onClick={() => onPick(each.id)}
        >
          {each.label}
        </button>
      ))}
    </div>
  );
}

/** A dialog of the browser: it keeps the focus, and Escape closes it. */
export function Dialog({
  title,
  onClose,
  children,
  wide,
}: {
  title: string;
  onClose: () => void;
  children: ComponentChildren;
  wide?: boolean;
}) {
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const shown = dialog.current;
    shown?.showModal();
    return () => shown?.close();
  }, []);
  return (
    <dialog
      ref={dialog}
      class={wide ? 'wide' : ''}
      aria-labelledby={id}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
    >
      <header>
        <h2 id={id}>{title}</h2>
        <Button kind="quiet" aria-label="Close" onClick={onClose}>
          <Icon name="close" />
        </Button>
      </header>
      {children}
    </dialog>
  );
}

export function Failure({ error }: { error: unknown }) {
  return (
    <p class="failure" role="alert">
      {errorText(error)}
    </p>
  );
}

export function Empty({ children }: { children: ComponentChildren }) {
  return <p class="empty">{children}</p>;
}

export function Loading() {
  return (
    <p class="loading" role="status">
      Reading…
    </p>
  );
}

export async function copy(text: string, what: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Only pages of secure origins have a clipboard; the old way works everywhere.
    const area = document.createElement('textarea');
    area.value = text;
    area.className = 'offscreen';
    document.body.append(area);
    area.select();
    document.execCommand('copy');
    area.remove();
  }
  say(`${what} copied.`);
}

export function CopyButton({ text, what, label }: { text: () => string; what: string; label?: string }) {
  return (
    <Button onClick={() => void copy(text(), what)}>
      <Icon name="copy" />
      {label ?? `Copy ${what.toLowerCase()}`}
    </Button>
  );
}

export function Time({ at, exact }: { at: string | null | undefined; exact?: boolean }) {
  if (!at) return <>–</>;
  return (
    <time dateTime={at} title={at}>
      {exact ? exactTime(at) : timeText(at)}
    </time>
  );
}

/** Return the date and the time of day. */
export function exactTime(at: string): string {
  return new Date(at).toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'medium' });
}

export function timeText(at: string, now = Date.now()): string {
  const then = Date.parse(at);
  if (Number.isNaN(then)) return at;
  const seconds = Math.round((now - then) / 1000);
  if (seconds < 0 || seconds >= 7 * 86_400)
    return new Date(then).toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'short' });
  if (seconds < 10) return 'just now';
  if (seconds < 60) return `${seconds} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h ago`;
  const days = Math.floor(seconds / 86_400);
  return days === 1 ? 'yesterday' : `${days} days ago`;
}

export function bytesText(bytes: number | undefined): string {
  if (bytes === undefined) return '–';
  if (bytes < 1024) return `${bytes} B`;
  if (bytes < 1024 * 1024) return `${(bytes / 1024).toFixed(bytes < 10_240 ? 1 : 0)} KB`;
  return `${(bytes / 1024 / 1024).toFixed(1)} MB`;
}

export function count(number: number | undefined, one: string, many = `${one}s`): string {
  if (number === undefined) return `– ${many}`;
  return `${number.toLocaleString('en')} ${number === 1 ? one : many}`;
}
