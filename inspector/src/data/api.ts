/**
 * Requests to the server. Every address is relative, so the page works below any prefix.
 */

import { signal } from '@preact/signals';
import { type Json, lift, parse } from './json.ts';

const PREFIX = 'api/plugins/valuetracker/';
const PROBE_MS = 1000;

/** Below the prefix the API is beside the page; at the root it is below the prefix. */
export function apiBase(pathname: string): string {
  return pathname.endsWith(`/${PREFIX}inspector/`) ? '../' : `../${PREFIX}`;
}

export const BASE = apiBase(globalThis.location?.pathname ?? '/');

/** Fields of records that hold values, which stay exact. */
const EXACT = new Set(['before', 'after', 'value', 'data', 'content', 'expect', 'meta', 'state']);

/** The server refused a request. */
export class Refusal extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly hint: string | null,
    readonly details: Record<string, unknown>,
  ) {
    super(message);
  }
}

/** The server does not answer. */
export class Away extends Error {
  constructor() {
    super('The server does not answer.');
  }
}

export class Answer {
  constructor(
    readonly status: number,
    readonly headers: Headers,
    readonly text: string,
  ) {}

  get json(): Json {
    return parse(this.text);
  }

  /** The answer as a record; its values stay exact. */
  record<T>(): T {
    return lift(this.json, EXACT) as T;
  }

  /** The ETag as `If-Match` wants it: a revision, and after a restored backup its incarnation. */
  get tag(): string | undefined {
    return this.headers.get('etag') ?? undefined;
  }

  /** The revision of the ETag. */
  get etag(): number | undefined {
    const found = /^"(\d+)(?:\.\d+)?"$/.exec(this.tag ?? '');
    return found ? Number(found[1]) : undefined;
  }

  /** The revision that a write led to. */
  get revision(): number {
    return Number(this.headers.get('x-revision') ?? 0);
  }

  /** The ETag of what a write has written. */
  get written(): string {
    const incarnation = this.headers.get('x-incarnation');
    return `"${this.revision}${incarnation ? `.${incarnation}` : ''}"`;
  }
}

/** True if the server answered when it was last asked. */
export const online = signal(true);
/** In memory only: a new page asks for it again. */
export const token = signal('');
/** SillyTavern wants its own token with each write; it is asked for when the first one is sent. */
let csrf: Promise<string> | undefined;
let throughSillyTavern = false;

export function useSillyTavern(on: boolean): void {
  throughSillyTavern = on;
}

export interface Options {
  extension?: string;
  body?: string | Blob;
  type?: string;
  headers?: Record<string, string>;
  signal?: AbortSignal;
}

export async function open(method: string, path: string, options: Options = {}): Promise<Response> {
  const headers: Record<string, string> = { ...options.headers };
  if (options.extension) headers['x-extension-id'] = options.extension;
  if (token.value) headers.authorization = `Bearer ${token.value}`;
  // SillyTavern would round the numbers of `application/json`.
  if (options.body !== undefined) headers['content-type'] = options.type ?? 'application/vnd.valuetracker+json';
  if (throughSillyTavern && method !== 'GET') {
    csrf ??= csrfToken();
    headers['x-csrf-token'] = await csrf;
  }
  let answer: Response;
  try {
    answer = await fetch(BASE + path, {
      method,
      headers,
      body: options.body,
      signal: options.signal,
      cache: 'no-store',
    });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    lose();
    throw new Away();
  }
  online.value = true;
  return answer;
}

async function csrfToken(): Promise<string> {
  try {
    const answer = await fetch('../../../../csrf-token', { cache: 'no-store' });
    return String(((await answer.json()) as { token: string }).token);
  } catch {
    csrf = undefined;
    throw new Away();
  }
}

export async function request(method: string, path: string, options: Options = {}): Promise<Answer> {
  const answer = await open(method, path, options);
  let text: string;
  try {
    text = await answer.text();
  } catch (error) {
    if (options.signal?.aborted) throw error;
    lose();
    throw new Away();
  }
  if (!answer.ok) {
    const refusal = refusalOf(answer.status, text);
    // The plugin in SillyTavern says so while the server is away.
    if (refusal.code === 'server_away') {
      lose();
      throw new Away();
    }
    throw refusal;
  }
  return new Answer(answer.status, answer.headers, text);
}

export function refusalOf(status: number, text: string): Refusal {
  try {
    const body = JSON.parse(text) as {
      error: string;
      code: string;
      hint: string | null;
      details: Record<string, unknown>;
    };
    if (typeof body.code === 'string') return new Refusal(status, body.code, body.error, body.hint, body.details ?? {});
  } catch {
    // Not one of ours: a proxy, or SillyTavern itself.
  }
  if (status === 403 && throughSillyTavern) csrf = undefined;
  return new Refusal(status, 'unknown', `The server answered ${status}.`, null, {});
}

export async function read<T>(path: string, extension?: string, signal?: AbortSignal): Promise<T> {
  return (await request('GET', path, { extension, signal })).record<T>();
}

/**
 * Send a write. If the connection is lost, wait for the server and send it once more: with its
 * `Idempotency-Key` it is applied once, whether or not the first one arrived.
 */
export async function write(method: string, path: string, options: Options = {}): Promise<Answer> {
  const headers = { 'x-actor': 'user', 'idempotency-key': randomText(), ...options.headers };
  try {
    return await request(method, path, { ...options, headers });
  } catch (error) {
    if (!(error instanceof Away)) throw error;
  }
  await backOnline(options.signal);
  return request(method, path, { ...options, headers });
}

/** Wait until the server answers again. */
export function backOnline(signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (online.value) return resolve();
    const stop = online.subscribe((is) => {
      if (!is) return;
      resolve();
      queueMicrotask(() => stop());
    });
    signal?.addEventListener('abort', () => {
      stop();
      reject(signal.reason);
    });
  });
}

let probing = false;

function lose(): void {
  online.value = false;
  if (probing) return;
  probing = true;
  const probe = async (): Promise<void> => {
    try {
      const answer = await fetch(`${BASE}probe`, { cache: 'no-store' });
      if (answer.status === 204) {
        probing = false;
        online.value = true;
        return;
      }
    } catch {
      // Still away.
    }
    setTimeout(probe, PROBE_MS);
  };
  setTimeout(probe, PROBE_MS);
}

/** Encode one segment of a path. */
export function seg(text: string): string {
  // `.` and `..` would be taken out of the path.
  return /^\.\.?$/.test(text) ? text.replaceAll('.', '%2E') : encodeURIComponent(text);
}

export function randomText(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** The words for a failure: what happened, and what to do. */
export function explain(error: unknown): { message: string; hint: string | null } {
  if (error instanceof Refusal) return { message: error.message, hint: error.hint };
  return { message: error instanceof Error ? error.message : String(error), hint: null };
}
