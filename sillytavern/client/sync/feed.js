/**
 * Follows changes made elsewhere: by another tab, another machine, the inspector.
 *
 * A browser opens at most six connections to one host, for all tabs together, and an open feed uses
 * one of them all the time. With a few tabs and extensions SillyTavern itself could send no request.
 * So one browser opens at most two feeds (Web Locks count them). All other tabs and extensions poll,
 * and poll at once when a tab of the same browser announces a write. `following.js` follows several
 * extensions with one feed.
 */

import { ValueTrackerError } from '../errors.js';
import { search } from './transport.js';

const SLOTS = 2;
const POLL_EVERY_MS = 3_000;
const POLL_EVERY_HIDDEN_MS = 15_000;
const RETRY_MS = [500, 15_000];
const CHANNEL = 'valuetracker';
/** The events that have no revision. */
const TOLD = /** @type {const} */ (['checkpoint', 'operation']);

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
     * @param {() => Record<string, string|number|undefined>} options.query which extensions, which changes, since when
     * @param {string} [options.root] the path above `/events` and `/changes`
     * @param {(write: {extensionId: string, chatId: string}) => boolean} options.concerns true if the feed has this write
     * @param {(event: any, id: string) => Promise<any>} options.onEvent
     * @param {(page: any) => void} [options.onPage] called after the events of a page
     * @param {(name: string, about: any) => boolean} [options.onNotice] what happened to one extension of several;
     *   returns true if the feed goes on
     * @param {(name: 'checkpoint'|'operation') => void} [options.onTold] called with each event that has no revision
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
                    this.options.onEvent(this.options.transport.parse(message.data), message.lastEventId);
                });
                for (const name of ['overflow', 'gone', 'compacted']) {
                    source.addEventListener(name, (message) => {
                        if (!this.#goesOn(name, message.data)) resolve(name);
                    });
                }
                for (const name of TOLD) source.addEventListener(name, () => this.options.onTold?.(name));
                // Events without a revision are not repeated: some may have been missed until now.
                source.addEventListener('open', () => TOLD.forEach((name) => this.options.onTold?.(name)));
                source.addEventListener('error', () => resolve('error'));
                this.#stops.push(() => resolve('stopped'));
            });
            const why = await ended;
            source.close();
            // An EventSource does not report why it failed: ask.
            await this.#pause(why === 'error' && await this.#isCompacted() ? 'gap' : why);
        }
    }

    /**
     * Return true if an event does not end the feed.
     *
     * @param {string} name
     * @param {string} data
     */
    #goesOn(name, data) {
        return name !== 'overflow' && (this.options.onNotice?.(name, this.options.transport.parse(data)) ?? false);
    }

    /** Return true if the server no longer has the changes since our revision. */
    async #isCompacted() {
        if (this.#stopped) return false;
        try {
            await this.#page(1);
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
                const data = fields.get('data') ?? '{}';
                if (name === 'change') {
                    this.#retryMs = RETRY_MS[0];
                    this.options.onEvent(this.options.transport.parse(data), fields.get('id') ?? '');
                } else if (name === 'checkpoint' || name === 'operation') {
                    this.options.onTold?.(name);
                } else if (name && ['overflow', 'gone', 'compacted'].includes(name) && !this.#goesOn(name, data)) {
                    return name;
                }
            }
        }
    }

    /** Follow by polling. */
    async #poll() {
        const channel = 'BroadcastChannel' in globalThis ? new BroadcastChannel(CHANNEL) : null;
        channel?.addEventListener('message', ({ data }) => {
            if (!data || !this.options.concerns(data)) return;
            // A page of changes has no events without a revision.
            if (TOLD.includes(data.told)) this.options.onTold?.(data.told);
            this.#wake();
        });
        this.#stops.push(() => channel?.close());
        while (!this.#stopped) {
            await this.#sleep(globalThis.document?.hidden ? POLL_EVERY_HIDDEN_MS : POLL_EVERY_MS);
            if (this.#stopped) return;
            try {
                const page = await this.#page(1000);
                if (this.#stopped) return;
                for (const event of page.items) await this.options.onEvent(event, '');
                this.options.onPage?.(page);
                this.#retryMs = RETRY_MS[0];
            } catch (error) {
                await this.#pause(isGap(error) ? 'gap' : 'error');
            }
        }
    }

    /** @param {number} limit */
    async #page(limit) {
        const { transport, root = '', query } = this.options;
        return (await transport.request('GET', `${root}/changes`, { query: { ...query(), limit }, once: true })).body;
    }

    #url() {
        const { transport, root = '', query } = this.options;
        return `${transport.url}${root}/events${search(query())}`;
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
export function isGap(error) {
    return error instanceof ValueTrackerError && (error.status === 410 || error.status === 400);
}

/** @type {BroadcastChannel|null} */
let channel = null;

/**
 * Notify the other tabs of this browser of a write.
 *
 * @param {{extensionId: string, chatId: string, revision?: number, told?: 'checkpoint'|'operation'}} what
 */
export function notifyTabs(what) {
    if (!('document' in globalThis) || !('BroadcastChannel' in globalThis)) return;
    channel ??= new BroadcastChannel(CHANNEL);
    channel.postMessage(what);
}
