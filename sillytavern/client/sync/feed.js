/**
 * What is changed elsewhere: by another tab, another machine, the inspector.
 *
 * A browser opens six connections to one host at most, for all tabs together, and a feed holds one
 * for good: with a few tabs and extensions SillyTavern itself would come to a stop. So no more than
 * two feeds are held in one browser (Web Locks tell them apart), and everybody else asks now and
 * then, and at once when a tab of the same browser says that it has written.
 */

import { ValueTrackerError } from '../errors.js';
import { search } from './transport.js';

const SLOTS = 2;
const ASK_EVERY_MS = 3_000;
const ASK_EVERY_HIDDEN_MS = 15_000;
const AGAIN_MS = [500, 15_000];
const CHANNEL = 'valuetracker';

export class Feed {
    #stopped = false;
    #again = AGAIN_MS[0];
    /** @type {Array<() => void>} */
    #ends = [];
    /** @type {() => void} */
    #wake = () => {};

    /**
     * @param {object} options
     * @param {import('./transport.js').Transport} options.transport
     * @param {string} options.chatId
     * @param {() => number} options.since
     * @param {(event: any) => Promise<any>} options.onEvent
     * @param {() => Promise<void>} options.onGap something was missed: read everything anew
     * @param {(error: unknown) => void} options.onFailure
     * @param {boolean} options.plain whether requests need no headers of their own, so that EventSource will do
     */
    constructor(options) {
        this.options = options;
        this.#follow();
    }

    stop() {
        this.#stopped = true;
        for (const end of this.#ends.splice(0)) end();
        this.#wake();
    }

    async #follow() {
        const { locks } = globalThis.navigator ?? {};
        const page = 'document' in globalThis;
        if (!page) return await this.#stream();
        if (!locks || !('EventSource' in globalThis) || !this.options.plain) return await this.#ask();
        for (let slot = 0; slot < SLOTS && !this.#stopped; slot++) {
            const held = await new Promise((resolve) => {
                locks.request(`valuetracker:feed:${slot}`, { ifAvailable: true }, (lock) => {
                    resolve(lock !== null);
                    // Held until we stop; the browser frees it when the tab is closed.
                    return lock && !this.#stopped ? new Promise((free) => this.#ends.push(() => free(undefined))) : undefined;
                }).catch(() => resolve(false));
            });
            if (held) return await this.#listen();
        }
        await this.#ask();
    }

    /** With EventSource. */
    async #listen() {
        while (!this.#stopped) {
            const source = new EventSource(this.#url());
            const ended = new Promise((resolve) => {
                source.addEventListener('change', (message) => {
                    this.#again = AGAIN_MS[0];
                    this.options.onEvent(this.options.transport.parse(message.data));
                });
                for (const name of ['overflow', 'gone']) source.addEventListener(name, () => resolve(name));
                source.addEventListener('error', () => resolve('error'));
                this.#ends.push(() => resolve('stopped'));
            });
            const why = await ended;
            source.close();
            // An EventSource does not say why it failed.
            await this.#pause(why === 'error' && await this.#tooOld() ? 'gap' : why);
        }
    }

    /** Whether what we ask for is no longer there. */
    async #tooOld() {
        if (this.#stopped) return false;
        const { transport, chatId, since } = this.options;
        try {
            await transport.request('GET', '/changes', { query: { since: since(), chatId, limit: 1 }, once: true });
            return false;
        } catch (error) {
            return isGap(error);
        }
    }

    /** With fetch, where there is no EventSource. */
    async #stream() {
        while (!this.#stopped) {
            const abort = new AbortController();
            this.#ends.push(() => abort.abort());
            let why = 'error';
            try {
                const { transport } = this.options;
                const response = await fetch(this.#url(), { headers: transport.headers(), signal: abort.signal });
                if (response.status === 410 || response.status === 400) why = 'gap';
                else if (response.ok && response.body) why = await this.#lines(response.body) ?? 'error';
            } catch {
                // Told by the pause.
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
                    this.#again = AGAIN_MS[0];
                    this.options.onEvent(this.options.transport.parse(fields.get('data') ?? '{}'));
                }
            }
        }
    }

    /** By asking. */
    async #ask() {
        const { transport, chatId } = this.options;
        const channel = 'BroadcastChannel' in globalThis ? new BroadcastChannel(CHANNEL) : null;
        channel?.addEventListener('message', ({ data }) => {
            if (data?.extensionId === transport.extensionId && data.chatId === chatId) this.#wake();
        });
        this.#ends.push(() => channel?.close());
        while (!this.#stopped) {
            await this.#sleep(globalThis.document?.hidden ? ASK_EVERY_HIDDEN_MS : ASK_EVERY_MS);
            if (this.#stopped) return;
            try {
                const query = { since: this.options.since(), chatId, limit: 1000 };
                const { body } = await transport.request('GET', '/changes', { query, once: true });
                for (const event of body.items) await this.options.onEvent(event);
                this.#again = AGAIN_MS[0];
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
        await this.#sleep(this.#again);
        this.#again = Math.min(this.#again * 2, AGAIN_MS[1]);
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

/** @param {unknown} error compacted, or a revision the server does not know */
function isGap(error) {
    return error instanceof ValueTrackerError && (error.status === 410 || error.status === 400);
}

/** @type {BroadcastChannel|null} */
let channel = null;

/**
 * Tells other tabs of this browser that something was written.
 *
 * @param {{extensionId: string, chatId: string, revision: number}} what
 */
export function tellTabs(what) {
    if (!('document' in globalThis) || !('BroadcastChannel' in globalThis)) return;
    channel ??= new BroadcastChannel(CHANNEL);
    channel.postMessage(what);
}
