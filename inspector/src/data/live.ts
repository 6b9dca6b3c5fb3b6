/**
 * The feed of the extension that is shown. Parts of the page listen to it and read again what changed.
 *
 * It is read with `fetch`, because `EventSource` cannot send a token.
 */

import { signal } from '@preact/signals';
import { backOnline, open, refusalOf } from './api.ts';
import { type Json, lift, parse } from './json.ts';
import type { FeedEvent } from './records.ts';

const AGAIN_MS = 1000;
const EXACT = new Set(['after', 'value']);

export interface ServerEvent {
  event: string;
  id: string;
  data: string;
}

/** Cut a stream of events into events. */
export class EventParser {
  #rest = '';

  push(text: string): ServerEvent[] {
    const blocks = (this.#rest + text).replaceAll('\r\n', '\n').split('\n\n');
    this.#rest = blocks.pop() ?? '';
    return blocks.map(parseBlock).filter((each) => each.data !== '' || each.event !== 'message');
  }
}

function parseBlock(block: string): ServerEvent {
  const found: ServerEvent = { event: 'message', id: '', data: '' };
  for (const line of block.split('\n')) {
    const at = line.indexOf(':');
    if (at <= 0) continue;
    const text = line.slice(at + 1).replace(/^ /, '');
    const name = line.slice(0, at);
    if (name === 'event') found.event = text;
    else if (name === 'id') found.id = text;
    else if (name === 'data') found.data += text;
  }
  return found;
}

type Listener = (event: FeedEvent | null) => void;
const listeners = new Set<Listener>();
/** The state of the feed, in a word. */
export const feedState = signal<'off' | 'connecting' | 'live' | 'gone'>('off');
let followed = '';
let stopping: AbortController | undefined;

/** Call a function for each change; with null if changes may have been missed, or a queue changed. */
export function onChange(listener: Listener): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function tell(event: FeedEvent | null): void {
  for (const each of [...listeners]) each(event);
}

export function follow(extension: string): void {
  if (extension === followed) return;
  followed = extension;
  stopping?.abort();
  stopping = undefined;
  feedState.value = 'off';
  if (!extension) return;
  const control = new AbortController();
  stopping = control;
  void run(extension, control.signal);
}

/** Connect again, for example with another token. */
export function followAgain(): void {
  const extension = followed;
  followed = '';
  follow(extension);
}

async function run(extension: string, signal: AbortSignal): Promise<void> {
  let since = '';
  while (!signal.aborted) {
    feedState.value = 'connecting';
    try {
      await backOnline(signal);
      const query = `extensionId=${encodeURIComponent(extension)}${since ? `&since=${since}` : ''}`;
      const answer = await open('GET', `events?${query}`, { signal });
      if (!answer.ok || !answer.body) {
        const refusal = refusalOf(answer.status, await answer.text());
        if (refusal.code === 'extension_not_registered' || refusal.status === 401 || refusal.status === 403) {
          feedState.value = 'gone';
          return;
        }
        since = '';
        throw refusal;
      }
      feedState.value = 'live';
      tell(null);
      since = (await pump(answer.body, signal)) || since;
      if ((feedState.value as string) === 'gone') return;
    } catch {
      if (signal.aborted) return;
    }
    await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
  }
}

async function pump(body: ReadableStream<Uint8Array>, signal: AbortSignal): Promise<string> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  const parser = new EventParser();
  let since = '';
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done || signal.aborted) return since;
      for (const event of parser.push(decoder.decode(value, { stream: true }))) {
        if (event.event === 'change') {
          since = event.id;
          tell(lift(parse(event.data) as Json, EXACT) as FeedEvent);
        } else if (event.event === 'gone') {
          feedState.value = 'gone';
          return since;
        } else {
          tell(null);
        }
      }
    }
  } catch {
    return since;
  }
}
