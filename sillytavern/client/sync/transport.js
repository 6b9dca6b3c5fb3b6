/**
 * Requests to the server.
 *
 * Every write carries an idempotency key. It is sent again with the same key until there is an
 * answer, or until the server counts as away. This module knows no chats.
 */

import { ServerAwayError, ValueTrackerError } from '../errors.js';
import { exactText } from '../state/exact.js';
import { newId } from '../state/json.js';

/** @typedef {{status: number, body: any, headers: Headers}} Answer */
/**
 * @typedef {object} RequestOptions
 * @property {any} [body]
 * @property {Record<string, string|number|boolean|null|undefined>} [query]
 * @property {Record<string, string>} [headers]
 * @property {string} [key] the idempotency key; writes get a new one by default
 * @property {boolean} [once] do not retry
 * @property {boolean} [keepalive] let the request outlive the page
 */

/** SillyTavern parses `application/json` and writes it again; a type of our own passes byte for byte. */
const TYPE = 'application/vnd.valuetracker+json';
const ANSWER_WITHIN_MS = 20_000;
/** A request that the server has no time for is sent again when the server says, for so long. */
const WAIT_FOR_TURN_MS = 30_000;
/** Error codes with a 5xx status that waiting does not mend. */
const LASTING = new Set(['database_damaged', 'database_too_new', 'database_too_old']);
/** The plugin sends this header with every answer that it forwards. */
const FORWARDED = 'x-vt-plugin';

export class Transport {
    /**
     * @param {object} options
     * @param {string} options.url
     * @param {string} options.extensionId
     * @param {number[]} options.retryMs
     * @param {() => Record<string, string>} options.headers
     * @param {(text: string) => any} [options.parse] parses JSON
     */
    constructor({ url, extensionId, retryMs, headers, parse = JSON.parse }) {
        this.url = url.replace(/\/+$/, '');
        this.extensionId = extensionId;
        this.retryMs = retryMs;
        this.headers = headers;
        /** The incarnation of the database: another one each time that a backup of it was restored. */
        this.incarnation = '';
        // Pass the text alone: `JSON.parse` would take a second argument for a reviver.
        this.parse = (/** @type {string} */ text) => parse(text);
    }

    /**
     * @param {string} method
     * @param {string} path each segment encoded
     * @param {RequestOptions} [options]
     * @returns {Promise<Answer>}
     */
    async request(method, path, { body, query, headers = {}, key, once = false, keepalive = false } = {}) {
        const write = method !== 'GET' && method !== 'HEAD';
        /** @type {Record<string, string>} */
        const sent = { ...this.headers(), 'x-extension-id': this.extensionId };
        for (const name of Object.keys(sent)) if (name.toLowerCase() === 'content-type') delete sent[name];
        if (body !== undefined) sent['Content-Type'] = TYPE;
        if (write) sent['Idempotency-Key'] = key ?? newId();
        Object.assign(sent, headers);
        const init = {
            method, headers: sent, keepalive, cache: /** @type {RequestCache} */ ('no-store'),
            body: body === undefined ? undefined : exactText(body),
        };
        const url = this.url + path + search(query);
        const pauses = once ? [] : [...this.retryMs];
        let registered = false;
        let waited = 0;
        for (;;) {
            try {
                const answer = await answered(url, init, this.parse);
                // Only answers that have a revision say of which incarnation it is; the first one has no number.
                if (answer.headers.has('x-revision') || answer.headers.has('etag')) {
                    this.incarnation = answer.headers.get('x-incarnation') ?? '';
                }
                return answer;
            } catch (error) {
                if (!(error instanceof ValueTrackerError)) throw error;
                if (error.code === 'extension_not_registered' && !registered) {
                    // The extension was deleted on the server, or the server has another data directory now.
                    registered = true;
                    await this.register();
                    continue;
                }
                let pause = error instanceof ServerAwayError ? pauses.shift() : undefined;
                if (error.code === 'rate_limited' && !once) {
                    pause = 1000 * error.details.retryAfter;
                    waited += pause;
                    // Writes are then kept in the chat, and sent later, as if the server were away.
                    if (waited > WAIT_FOR_TURN_MS) throw new ServerAwayError(error.message, { status: error.status, hint: error.hint });
                }
                if (pause === undefined) throw error;
                await new Promise((resolve) => setTimeout(resolve, pause));
            }
        }
    }

    async register() {
        const init = {
            method: 'POST',
            headers: { ...this.headers(), 'Content-Type': TYPE },
            body: JSON.stringify({ extensionId: this.extensionId }),
        };
        return await answered(`${this.url}/register`, init);
    }

    /** Return true if the server answers. */
    async probe() {
        try {
            await answered(`${this.url}/probe`, { headers: this.headers(), cache: 'no-store' });
            return true;
        } catch {
            return false;
        }
    }
}

/**
 * @param {string} url
 * @param {RequestInit} init
 * @param {(text: string) => any} [parse]
 * @returns {Promise<Answer>}
 */
async function answered(url, init, parse = JSON.parse) {
    let response;
    let text;
    try {
        response = await fetch(url, { ...init, signal: AbortSignal.timeout(ANSWER_WITHIN_MS) });
        text = await response.text();
    } catch (cause) {
        throw new ServerAwayError('there is no answer.', { cause });
    }
    const { status, headers } = response;
    let body;
    try {
        body = text === '' ? undefined : parse(text);
    } catch {
        body = undefined;
    }
    if (response.ok && (body !== undefined || text === '')) return { status, body, headers };
    if (typeof body?.code !== 'string') {
        // Not our server: SillyTavern without the plugin, a proxy in between, or another program behind the plugin.
        const reason = headers.has(FORWARDED) ? 'other_program' : undefined;
        throw new ServerAwayError(`another program answered ${status}.`, { status, details: { reason } });
    }
    if (body.code === 'server_away' || (status >= 502 && status <= 504 && !LASTING.has(body.code))) {
        throw new ServerAwayError(body.error, { status, hint: body.hint ?? null, details: body.details ?? {} });
    }
    throw new ValueTrackerError(body.error, {
        code: body.code, hint: body.hint ?? null, details: body.details ?? {}, status,
    });
}

/**
 * @param {Record<string, string|number|boolean|null|undefined>} [query]
 */
export function search(query = {}) {
    const pairs = Object.entries(query).filter(([, value]) => value !== undefined && value !== null);
    return pairs.length ? `?${new URLSearchParams(pairs.map(([name, value]) => [name, String(value)]))}` : '';
}

/**
 * Join segments to a path and encode each.
 *
 * @param {string[]} segments
 */
export function path(...segments) {
    return segments.map((segment) => `/${encodeURIComponent(segment)}`).join('');
}

/**
 * Return the headers for an anchor, an actor and a session. Text in headers is percent-encoded.
 *
 * @param {{anchor?: {messageId: string, swipe: string}|null, actor?: string, session?: string|null, ifMatch?: number|string}} about
 * @returns {Record<string, string>}
 */
export function headersOf({ anchor, actor, session, ifMatch }) {
    return {
        ...(anchor ? { 'x-message-id': encodeURIComponent(anchor.messageId), 'x-swipe-id': encodeURIComponent(anchor.swipe) } : {}),
        ...(actor && actor !== 'extension' ? { 'x-actor': actor } : {}),
        ...(session ? { 'x-session': session } : {}),
        ...(ifMatch === undefined ? {} : { 'If-Match': `"${ifMatch}"` }),
    };
}
