/**
 * Follows several extensions with one feed, so that a page needs one connection however many it watches.
 *
 * The cursor names each extension with its revision, as `a:12,b:7`. The server gives it with every event.
 */

import { Feed } from './feed.js';

const ROOT = '/cross-extension';

/**
 * @typedef {object} FollowOptions
 * @property {string} [chatId] only changes in this chat
 * @property {string} [instanceId] only changes of this instance
 * @property {string} [key] only changes of this key
 * @property {(extensionId: string) => any} [onMissed] called when changes of an extension were missed: read its values again
 * @property {(extensionId: string) => any} [onGone] called when an extension was deregistered; it is no longer followed
 */

export class Following {
    #transport;
    #plain;
    #ids;
    #onChange;
    #options;
    #filter;
    #cursor = '';
    #stopped = false;
    /** @type {Feed|null} */
    #feed = null;

    /**
     * @param {import('./transport.js').Transport} transport
     * @param {boolean} plain true if requests need no extra headers
     * @param {string[]} extensionIds
     * @param {(event: any) => any} onChange
     * @param {FollowOptions} options
     */
    constructor(transport, plain, extensionIds, onChange, options) {
        const { chatId, instanceId, key } = options;
        this.#transport = transport;
        this.#plain = plain;
        this.#ids = [...new Set(extensionIds)];
        this.#onChange = onChange;
        this.#options = options;
        this.#filter = { chatId, instanceId, key };
    }

    /** Begin now; throws if the server refuses, for example because it does not know an extension. */
    async start() {
        this.#cursor = await this.#now();
        if (this.#stopped) return;
        this.#feed = new Feed({
            transport: this.#transport,
            plain: this.#plain,
            root: ROOT,
            query: () => ({ ...this.#filter, extensions: this.#ids.join(','), since: this.#cursor }),
            concerns: ({ extensionId, chatId }) => this.#ids.includes(extensionId)
                && [undefined, chatId].includes(this.#filter.chatId),
            onEvent: async (event, id) => {
                if (id) this.#cursor = id;
                await this.#tell(this.#onChange, event);
            },
            onPage: (page) => {
                this.#cursor = page.next;
                for (const extensionId of page.compacted) this.#tell(this.#options.onMissed, extensionId);
                for (const extensionId of page.gone) this.#drop(extensionId);
            },
            onNotice: (name, { extensionId }) => {
                if (name === 'gone') this.#drop(extensionId);
                else this.#tell(this.#options.onMissed, extensionId);
                return true;
            },
            onGap: async () => {
                this.#cursor = await this.#now();
                for (const extensionId of this.#ids) this.#tell(this.#options.onMissed, extensionId);
            },
            onFailure: () => {},
        });
    }

    stop() {
        this.#stopped = true;
        this.#feed?.stop();
    }

    /** Return the cursor of the newest revisions. */
    async #now() {
        const query = { extensions: this.#ids.join(','), limit: 1 };
        return (await this.#transport.request('GET', `${ROOT}/changes`, { query })).body.next;
    }

    /** @param {string} extensionId */
    #drop(extensionId) {
        if (!this.#ids.includes(extensionId)) return;
        this.#ids = this.#ids.filter((id) => id !== extensionId);
        this.#cursor = this.#cursor.split(',').filter((each) => !each.startsWith(`${extensionId}:`)).join(',');
        if (!this.#ids.length) this.stop();
        this.#tell(this.#options.onGone, extensionId);
    }

    /**
     * Call a function of the author; its failure must not end the feed.
     *
     * @param {((about: any) => any)|undefined} handler
     * @param {any} about
     */
    async #tell(handler, about) {
        try {
            if (!this.#stopped || handler === this.#options.onGone) await handler?.(about);
        } catch (error) {
            console.error('[ValueTracker] A handler failed.', error);
        }
    }
}
