/**
 * One load of one chat: what may be read and written, and how it gets to the server and back.
 *
 * Everything that talks to the server goes through one lane, in order: saves, chains, what others
 * have changed. So a save never overtakes the chain it depends on, and an event of the feed is
 * looked at when our own answers are known.
 */

import { ServerAwayError, StaleChatError, ValueTrackerError } from '../errors.js';
import { Values } from '../state/values.js';
import { hasMessage, identify, placeNow } from '../tavern/ids.js';
import { Away } from './away.js';
import { beginBranch, settleBranch } from './branching.js';
import { sendUnanswered } from './late.js';
import { Mirror } from './mirror.js';
import { move } from './moving.js';
import { Saver } from './saver.js';
import { Story } from './story.js';
import { headersOf, path } from './transport.js';

/** @typedef {import('../state/values.js').WriteOptions} WriteOptions */
/** @typedef {import('../tavern/ids.js').Anchor} Anchor */
/**
 * What a session needs of the tracker it belongs to.
 *
 * @typedef {object} Owner
 * @property {import('./transport.js').Transport} transport
 * @property {import('../tavern/page.js').Page|null} page
 * @property {boolean} follow
 * @property {string} client
 * @property {(name: string, argument: any) => void} emit
 * @property {(error: unknown) => void} lost the server does not answer
 * @property {(late: Late) => void} later send it when the server is back, the chat being gone
 * @property {(revision: number) => void} tell other tabs
 */
/** @typedef {import('./late.js').Late} Late */
/** A route below the chat's, or one of its own. @typedef {string|{from: string}} Route */
/** @typedef {{file?: string, id: string, parent?: string, branchedAt?: string, checkpoint?: import('../tavern/page.js').Began}} Which */

export class Session {
    /** @type {Map<string|null, Values>} */
    rows = new Map();
    /** @type {any} what `open` answered */
    opened = null;
    /** What this load began a branch with. @type {import('./branching.js').Begun|null} */
    begun = null;
    /** @type {string|null} */
    token = null;
    away = false;
    stale = false;
    revision = 0;

    /** @type {Promise<any>} */
    #tail = Promise.resolve();

    /**
     * @param {Owner} owner
     * @param {Which} which
     * @param {Record<string, any>} defaults
     */
    constructor(owner, which, defaults) {
        this.owner = owner;
        this.id = which.id;
        this.which = which;
        this.defaults = defaults;
        this.base = path('chats', which.id);
        const memory = {};
        this.kept = new Away(owner.transport.extensionId, () => owner.page?.kept() ?? memory);
        this.mirror = new Mirror(this);
        this.story = new Story(this);
        this.saver = new Saver(this);
        this.rows.set(null, new Values(this, null, {}));
    }

    // What is allowed

    mayRead() {
        if (this.stale) throw new StaleChatError(this.id);
    }

    mayWrite() {
        if (this.stale || !this.isCurrent()) throw new StaleChatError(this.id);
    }

    /** Whether SillyTavern still shows this chat: it swaps messages and metadata before it tells. */
    isCurrent() {
        const { page } = this.owner;
        if (this.stale) return false;
        if (!page) return true;
        const now = page.current();
        return now !== null && now.id === this.id && now.file === this.which.file;
    }

    /**
     * Whether a message is one of the page's.
     *
     * @param {string} messageId
     */
    knows(messageId) {
        const { page } = this.owner;
        return !page || hasMessage(page.messages, messageId);
    }

    /**
     * @param {WriteOptions} [options]
     * @returns {import('../state/ledger.js').Place}
     */
    place(options) {
        const { anchor, actor = 'extension' } = options ?? this.saver.batchPlace ?? this.saver.handlerPlace ?? {};
        if (anchor === undefined) return { anchor: actor === 'user' ? null : this.#anchorNow(), actor };
        return { anchor: anchor === null ? null : this.anchorOf(anchor), actor };
    }

    #anchorNow() {
        const { page, follow } = this.owner;
        if (!page || !follow) return null;
        const { anchor, changed } = placeNow(page.messages);
        if (changed) page.changed();
        return anchor;
    }

    /**
     * @param {number|Anchor} place the index of a message, or its ids
     * @returns {Anchor}
     */
    anchorOf(place) {
        if (typeof place === 'object') return { messageId: place.messageId, swipe: String(place.swipe ?? '0') };
        this.mayRead();
        const { page } = this.owner;
        const message = page?.messages[place];
        if (!page || !message) throw new ValueTrackerError(`There is no message ${place}.`, { code: 'message_not_found' });
        const { messageId, swipe, changed } = identify(message, { last: place === page.messages.length - 1 });
        if (changed) page.changed();
        if (swipe === null) {
            throw new ValueTrackerError('A new swipe of this message is being generated.', { code: 'message_not_found' });
        }
        return { messageId, swipe };
    }

    /** Saves the chat in SillyTavern, with what is kept in it. */
    async save() {
        await this.owner.page?.save({ file: this.which.file ?? '', id: this.id });
    }

    // One thing after the other

    /**
     * Runs something when all before it is done.
     *
     * @template T
     * @param {() => T|Promise<T>} work
     * @returns {Promise<T>}
     */
    run(work) {
        const done = this.#tail.then(work);
        this.#tail = done.catch(() => {});
        done.catch(() => {});
        return done;
    }

    // Talking to the server

    /**
     * A write of this chat, with its session; in the lane.
     *
     * @param {string} method
     * @param {Route} route
     * @param {import('./transport.js').RequestOptions} options
     * @returns {Promise<import('./transport.js').Answer>}
     */
    async callInLane(method, route, options) {
        const send = () => this.owner.transport.request(method, this.#at(route), {
            ...options, headers: { ...options.headers, ...headersOf({ session: this.token }) },
        });
        try {
            return await send();
        } catch (error) {
            const ended = error instanceof ValueTrackerError && error.code === 'stale_session' && this.isCurrent();
            if (!ended) throw error;
            // The chat is open here: only the server has forgotten.
            await this.open();
            return await send();
        }
    }

    /** Loads the chat; → what it holds. */
    async open() {
        const { parent, branchedAt } = this.which;
        const { body } = await this.owner.transport.request('POST', `${this.base}/open`, {
            body: { client: this.owner.client, parent, messageId: parent ? branchedAt : undefined, defaults: this.defaults },
        });
        this.token = body.session;
        this.opened ??= body;
        return body;
    }

    /**
     * A write beside the values (series, checkpoints …), after all that was written before it.
     *
     * @param {string} method
     * @param {Route} route
     * @param {any} body
     * @param {WriteOptions} [options]
     * @returns {Promise<any>}
     */
    async write(method, route, body, options) {
        this.mayWrite();
        const place = this.place(options);
        this.#beThere();
        this.saver.flush();
        return await this.run(async () => {
            await this.story.follow('save');
            this.#beThere();
            try {
                const answer = await this.callInLane(method, route, { body, headers: headersOf(place) });
                if (place.anchor) this.story.written();
                this.mirror.perhapsMine(Number(answer.headers.get('x-revision')));
                return answer.body;
            } catch (error) {
                if (error instanceof ServerAwayError) this.lose(error);
                throw error;
            }
        });
    }

    /**
     * @param {Route} route
     * @param {Record<string, any>} [query]
     * @returns {Promise<any>}
     */
    async read(route, query) {
        this.mayRead();
        await this.saver.flush().catch(() => {});
        this.#beThere();
        try {
            const { body } = await this.owner.transport.request('GET', this.#at(route), { query });
            this.mayRead();
            return body;
        } catch (error) {
            if (error instanceof ServerAwayError) this.lose(error);
            throw error;
        }
    }

    /** @param {Route} route */
    #at(route) {
        return typeof route === 'string' ? this.base + route : route.from;
    }

    #beThere() {
        if (this.away) throw new ServerAwayError('it has not come back yet.');
    }

    /** @param {string} source */
    async readAgain(source) {
        await this.run(() => this.mirror.readAgain(source));
    }

    // Coming and going

    /** Loads the chat for the first time, from the server or from what was kept. */
    async load() {
        return await this.run(async () => {
            try {
                if (this.away) throw new ServerAwayError('it has not come back yet.');
                await this.#take([]);
            } catch (error) {
                if (!(error instanceof ServerAwayError)) throw error;
                if (!this.away) this.lose(error);
                if (this.opened === null) this.mirror.takeKept(this.findKept(), this.defaults);
            }
        });
    }

    /**
     * Opens the chat, brings what was kept, and tells which messages are visible.
     *
     * @param {Array<{instanceId: string|null, key: string}>} except keys that are ours to keep
     */
    async #take(except) {
        const begun = await beginBranch(this);
        this.mirror.take(await this.open(), except);
        this.away = false;
        await move(this);
        const report = await this.story.follow('load');
        if (begun) await settleBranch(this, begun, report);
    }

    /** @param {unknown} error */
    lose(error) {
        this.away = true;
        this.owner.lost(error);
    }

    /** The server is there again. */
    async back() {
        await this.run(async () => {
            if (!this.away || this.stale) return;
            try {
                await sendUnanswered(this);
                await this.#take(this.findKept()?.rows ?? []);
            } catch (error) {
                this.away = true;
                if (error instanceof ServerAwayError) this.owner.lost(error);
                else this.owner.emit('error', error);
            }
        });
    }

    /** What was kept in the chat while the server was away; nothing if SillyTavern shows another. */
    findKept() {
        return this.isCurrent() ? this.kept.find() : undefined;
    }

    /** The chat is no longer open: nothing may be read or written, and what was written is sent. */
    async retire() {
        const sent = this.saver.flush();
        this.stale = true;
        await sent.catch(() => {});
        await this.#tail;
    }
}
