/**
 * Follows changes made elsewhere: by another tab, another machine, the inspector.
 *
 * A browser opens at most six connections to one host, for all tabs together, and an open feed uses
 * one of them all the time. With a few tabs and extensions SillyTavern itself could send no request.
 * So one browser opens at most two feeds (Web Locks count them). All other tabs and extensions poll,
 * and poll at once when a tab of the same browser announces a write.
 */

import { ValueTrackerError } from '../errors.js';
import { search } from './transport.js';

const SLOTS = 2;
const POLL_EVERY_MS = 3_000;
const POLL_EVERY_HIDDEN_MS = 15_000;
const RETRY_MS = [500, 15_000];
const CHANNEL = 'valuetracker';

export class Feed {
    #stopped = false;
    #retryMs = RETRY_MS[0];
    /** @type {Array<() => void>} */
    #stops = [];
    /** @type {() => void} */
    #wake = () => {};

    /**
     * @param {object} options
     * @param {import('./transport.js').Transport} options.transport
     * @param {string} options.chatId
     * @param {() => number} options.since
     * @param {(event: any) => Promise<any>} options.onEvent
     * @param {() => Promise<void>} options.onGap called when events were missed: read the whole state again
     * @param {(error: unknown) => void} options.onFailure
     * @param {boolean} options.plain true if requests need no extra headers, so that EventSource can be used
     */
    constructor(options) {
        this.options = options;
        this.#start();
    }

    stop() {
        this.#stopped = true;
        for (const end of this.#stops.splice(0)) end();
        this.#wake();
    }

    async #start() {
        const { locks } = globalThis.navigator ?? {};
        const page = 'document' in globalThis;
        if (!page) return await this.#stream();
        if (!locks || !('EventSource' in globalThis) || !this.options.plain) return await this.#poll();
        for (let slot = 0; slot < SLOTS && !this.#stopped; slot++) {
            const held = await new Promise((resolve) => {
                locks.request(`valuetracker:feed:${slot}`, { ifAvailable: true }, (lock) => {
                    resolve(lock !== null);
                    // Held until `stop`; the browser releases it when the tab is closed.
                    return lock && !this.#stopped ? new Promise((free) => this.#stops.push(() => free(undefined))) : undefined;
                }).catch(() => resolve(false));
            });
            if (held) return await this.#listen();
        }
        await this.#poll();
    }

    /** Follow with EventSource. */
    async #listen() {
        while (!this.#stopped) {
            const source = new EventSource(this.#url());
            const ended = new Promise((resolve) => {
                source.addEventListener('change', (message) => {
                    this.#retryMs = RETRY_MS[0];
                    this.options.onEvent(this.options.transport.parse(message.data));
                });
                for (const name of ['overflow', 'gone']) source.addEventListener(name, () => resolve(name));
                source.addEventListener('error', () => resolve('error'));
                this.#stops.push(() => resolve('stopped'));
            });
            const why = await ended;
            source.close();
            // An EventSource does not report why it failed: ask.
            await this.#pause(why === 'error' && await this.#isCompacted() ? 'gap' : why);
        }
    }

    /** Return true if the server no longer has the changes since our revision. */
    async #isCompacted() {
        if (this.#stopped) return false;
        const { transport, chatId, since } = this.options;
        try {
            await transport.request('GET', '/changes', { query: { since: since(), chatId, limit: 1 }, once: true });
            return false;
        } catch (error) {
            return isGap(error);
        }
    }

    /** Follow with fetch, where there is no EventSource. */
    async #stream() {
        while (!this.#stopped) {
            const abort = new AbortController();
            this.#stops.push(() => abort.abort());
            let why = 'error';
            try {
                const { transport } = this.options;
                const response = await fetch(this.#url(), { headers: transport.headers(), signal: abort.signal });
                if (response.status === 410 || response.status === 400) why = 'gap';
                else if (response.ok && response.body) why = await this.#lines(response.body) ?? 'error';
            } catch {
                // `#pause` reports the failure.
            }
            await this.#pause(why);
        }
    }

    /** @param {ReadableStream<Uint8Array>} body */
    async #lines(body) {
        const decoder = new TextDecoder();
        let rest = '';
        const reader = body.getReader();
        for (;;) {
            const { done, value } = await reader.read();
            if (done) return;
            const blocks = (rest + decoder.decode(value, { stream: true })).split('\n\n');
            rest = blocks.pop() ?? '';
            for (const block of blocks) {
                const fields = new Map(block.split('\n').map((line) => {
                    const colon = line.indexOf(':');
                    return [line.slice(0, colon), line.slice(colon + 1).trimStart()];
                }));
                const name = fields.get('event');
                if (name === 'overflow' || name === 'gone') return name;
                if (name === 'change') {
                    this.#retryMs = RETRY_MS[0];
                    this.options.onEvent(this.options.transport.parse(fields.get('data') ?? '{}'));
                }
            }
        }
    }

    /** Follow by polling. */
    async #poll() {
        const { transport, chatId } = this.options;
        const channel = 'BroadcastChannel' in globalThis ? new BroadcastChannel(CHANNEL) : null;
        channel?.addEventListener('message', ({ data }) => {
            if (data?.extensionId === transport.extensionId && data.chatId === chatId) this.#wake();
        });
        this.#stops.push(() => channel?.close());
        while (!this.#stopped) {
            await this.#sleep(globalThis.document?.hidden ? POLL_EVERY_HIDDEN_MS : POLL_EVERY_MS);
            if (this.#stopped) return;
            try {
                const query = { since: this.options.since(), chatId, limit: 1000 };
                const { body } = await transport.request('GET', '/changes', { query, once: true });
                for (const event of body.items) await this.options.onEvent(event);
                this.#retryMs = RETRY_MS[0];
            } catch (error) {
                await this.#pause(isGap(error) ? 'gap' : 'error');
            }
        }
    }

    #url() {
        const { transport, chatId, since } = this.options;
        return `${transport.url}/events${search({ extensionId: transport.extensionId, chatId, since: since() })}`;
    }

    /** @param {unknown} why */
    async #pause(why) {
        if (this.#stopped || why === 'gone') return;
        if (why === 'error') this.options.onFailure(why);
        await this.#sleep(this.#retryMs);
        this.#retryMs = Math.min(this.#retryMs * 2, RETRY_MS[1]);
        if (!this.#stopped && why !== 'error') await this.options.onGap().catch(() => {});
    }

    /** @param {number} ms */
    async #sleep(ms) {
        await new Promise((resolve) => {
            const timer = setTimeout(resolve, ms);
            this.#wake = () => {
                clearTimeout(timer);
                resolve(undefined);
            };
        });
    }
}

/**
 * Return true if the server has compacted our revision, or does not know it.
 *
 * @param {unknown} error
 */
function isGap(error) {
    return error instanceof ValueTrackerError && (error.status === 410 || error.status === 400);
}

/** @type {BroadcastChannel|null} */
let channel = null;

/**
 * Notify the other tabs of this browser of a write.
 *
 * @param {{extensionId: string, chatId: string, revision: number}} what
 */
export function notifyTabs(what) {
    if (!('document' in globalThis) || !('BroadcastChannel' in globalThis)) return;
    channel ??= new BroadcastChannel(CHANNEL);
    channel.postMessage(what);
}
