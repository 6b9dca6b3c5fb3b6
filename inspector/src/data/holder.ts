/** Holders of values: an instance, or a chat with its own data. */

import { BASE, request, seg } from './api.ts';
import { type Json, Obj } from './json.ts';
import type { FeedEvent } from './records.ts';

export interface Holder {
  extension: string;
  kind: 'instance' | 'chat';
  id: string;
}

export function pathOf(holder: Holder): string {
  return `${holder.kind}s/${seg(holder.id)}`;
}

export function nameOf(holder: Holder): string {
  return `${holder.extension}/${holder.kind}/${holder.id}`;
}

/** Return true if an event changed something of a holder; or one key of it. */
export function concerns(holder: Holder, key?: string): (event: FeedEvent) => boolean {
  return (event) =>
    event.changes.some((each) => {
      const same = holder.kind === 'instance' ? each.instanceId === holder.id : each.chatId === holder.id;
      // Things without a key, such as a restore of the whole, concern every key.
      return same && (key === undefined || each.key === key || each.key === null);
    });
}

export interface Values {
  entries: [string, Json][];
  revision: number | undefined;
}

export async function readValues(holder: Holder, at = '', signal?: AbortSignal): Promise<Values> {
  const query = at ? `?at=${encodeURIComponent(at)}` : '';
  const answer = await request('GET', `${pathOf(holder)}/data${query}`, { extension: holder.extension, signal });
  const found = answer.json;
  return { entries: found instanceof Obj ? found.entries : [], revision: answer.etag };
}

export interface OneValue {
  value: Json | undefined;
  revision: number | undefined;
  /** The tag that `If-Match` names. */
  tag: string | undefined;
}

export async function readValue(holder: Holder, key: string, at = '', signal?: AbortSignal): Promise<OneValue> {
  const query = at ? `?at=${encodeURIComponent(at)}` : '';
  const answer = await request('GET', `${pathOf(holder)}/data/${seg(key)}${query}`, {
    extension: holder.extension,
    signal,
  });
  const found = answer.json;
  return { value: found instanceof Obj ? found.get(key) : undefined, revision: answer.etag, tag: answer.tag };
}

/** Return a request as a person would paste it into a console. */
export function asFetch(method: string, path: string, extension: string, body?: string): string {
  const address = new URL(BASE + path, location.href).href;
  const headers: Record<string, string> = {};
  if (extension) headers['x-extension-id'] = extension;
  if (body !== undefined) headers['content-type'] = 'application/json';
  const options = [
    method === 'GET' ? '' : `\n  method: ${JSON.stringify(method)},`,
    Object.keys(headers).length ? `\n  headers: ${JSON.stringify(headers)},` : '',
    body === undefined ? '' : `\n  body: ${JSON.stringify(body)},`,
  ].join('');
  return `await (await fetch(${JSON.stringify(address)}${options ? `, {${options}\n}` : ''})).json()`;
}

export function asCurl(method: string, path: string, extension: string, body?: string): string {
  const quote = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;
  const parts = ['curl'];
  if (method !== 'GET') parts.push('-X', method);
  if (extension) parts.push('-H', quote(`x-extension-id: ${extension}`));
  if (body !== undefined) parts.push('-H', quote('content-type: application/json'), '-d', quote(body));
  parts.push(quote(new URL(BASE + path, location.href).href));
  return parts.join(' ');
}

/** Return the macro that stands for a value in prompts of SillyTavern. */
export function asMacro(key: string, who: string | null): string {
  return who === null ? `{{vt::${key}}}` : `{{vt::${who}.${key}}}`;
}
