/**
 * One load of one chat. It checks what may be read and written, and talks to the server.
 *
 * Saves, chains and feed events go through one queue, in order. So a save never overtakes the chain it
 * depends on, and a feed event is applied when the answers to our own writes are known.
 */

import { ServerAwayError, StaleChatError, ValueTrackerError } from '../errors.js';
import { Values } from '../state/values.js';
import { anchorNow, hasMessage, identify } from '../tavern/ids.js';
import { Away } from './away.js';
import { beginBranch, settleBranch } from './branching.js';
import { Mirror } from './mirror.js';
import { moveToServer } from './moving.js';
import { resendUnanswered } from './resend.js';
import { Saver } from './saver.js';
import { Story } from './story.js';
import { headersOf, path } from './transport.js';

/** @typedef {import('../state/values.js').WriteOptions} WriteOptions */
/** @typedef {import('../tavern/ids.js').Anchor} Anchor */
/**
 * The parts of the tracker that a session uses.
 *
 * @typedef {object} Owner
 * @property {import('./transport.js').Transport} transport
 * @property {import('../tavern/page.js').Page|null} page
 * @property {boolean} follow
 * @property {string} client
 * @property {[number, number]} saveMs how long writes wait for more: after the last one, and at most
 * @property {(name: string, argument: any) => void} emit
 * @property {(error: unknown) => void} onServerLost called when the server does not answer
 * @property {(request: Unanswered) => void} resendLater send a request of a chat that is no longer open when the server is back
 * @property {(what: {revision?: number, told?: 'checkpoint'|'operation'}) => void} notifyTabs notify other tabs of a write
 */
/** @typedef {import('./resend.js').Unanswered} Unanswered */
/** A route below the chat's, or with `from` any other. @typedef {string|{from: string}} Route */
/** @typedef {{file?: string, id: string, parent?: string, branchedAt?: string, checkpoint?: import('../tavern/page.js').BranchStart}} ChatIdentity */

export class Session {
    /** @type {Map<string|null, Values>} */
    rows = new Map();
    /** The first answer of `open`. @type {any} */
    opened = null;
    /** The checkpoint that this load started a branch from. @type {import('./branching.js').Begun|null} */
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
     * @param {ChatIdentity} identity
     * @param {Record<string, any>} defaults
     */
    constructor(owner, identity, defaults) {
        this.owner = owner;
        this.id = identity.id;
        this.identity = identity;
        this.defaults = defaults;
        this.base = path('chats', identity.id);
        const memory = {};
        this.kept = new Away(owner.transport.extensionId, () => owner.page?.kept() ?? memory);
        this.mirror = new Mirror(this);
        this.story = new Story(this);
        this.saver = new Saver(this);
        this.rows.set(null, new Values(this, null, {}));
    }

    // Permission

    mayRead() {
        if (this.stale) throw new StaleChatError(this.id);
    }

    mayWrite() {
        if (this.stale || !this.isCurrent()) throw new StaleChatError(this.id);
    }

    /** Return true while SillyTavern shows this chat. It replaces messages and metadata before its event. */
    isCurrent() {
        const { page } = this.owner;
        if (this.stale) return false;
        if (!page) return true;
        const now = page.current();
        return now !== null && now.id === this.id && now.file === this.identity.file;
    }

    /**
     * Return true if the page has a message with this id, or there is no page.
     *
     * @param {string} messageId
     */
    knows(messageId) {
        const { page } = this.owner;
        return !page || hasMessage(page.messages, messageId);
    }

    /**
     * Return the anchor and actor of a write.
     *
     * @param {WriteOptions} [options]
     * @returns {import('../state/ledger.js').WriteContext}
     */
    writeContext(options) {
        const { anchor, actor = 'extension' } = options ?? this.saver.batchContext ?? this.saver.handlerContext ?? {};
        if (anchor === undefined) return { anchor: actor === 'user' ? null : this.#currentAnchor(), actor };
        return { anchor: anchor === null ? null : this.anchorOf(anchor), actor };
    }

    #currentAnchor() {
        const { page, follow } = this.owner;
        if (!page || !follow) return null;
        const { anchor, changed } = anchorNow(page.messages);
        if (changed) page.noteNewIds();
        return anchor;
    }

    /**
     * @param {number|Anchor} message its index, or its ids
     * @returns {Anchor}
     */
    anchorOf(message) {
        if (typeof message === 'object') return { messageId: message.messageId, swipe: String(message.swipe ?? '0') };
        this.mayRead();
        const { page } = this.owner;
        const found = page?.messages[message];
        if (!page || !found) throw new ValueTrackerError(`There is no message ${message}.`, { code: 'message_not_found' });
        const { messageId, swipe, changed } = identify(found, { last: message === page.messages.length - 1 });
        if (changed) page.noteNewIds();
        if (swipe === null) {
            throw new ValueTrackerError('A new swipe of this message is being generated.', { code: 'message_not_found' });
        }
        return { messageId, swipe };
    }

    /** Save the chat in SillyTavern, with the values kept in its metadata. */
    async save() {
        await this.owner.page?.save({ file: this.identity.file ?? '', id: this.id });
    }

    // The queue

    /**
     * Run work after all earlier work is done.
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
     * Send a write of this chat with its session token; runs in the queue.
     *
     * @param {string} method
     * @param {Route} route
     * @param {import('./transport.js').RequestOptions} options
     * @returns {Promise<import('./transport.js').Answer>}
     */
    async callInQueue(method, route, options) {
        const send = () => this.owner.transport.request(method, this.#at(route), {
            ...options, headers: { ...options.headers, ...headersOf({ session: this.token }) },
        });
        try {
            return await send();
        } catch (error) {
            const ended = error instanceof ValueTrackerError && error.code === 'stale_session' && this.isCurrent();
            if (!ended) throw error;
            // The chat is still open here, but the server has dropped the session: open a new one.
            await this.open();
            return await send();
        }
    }

    /** Open the chat on the server and return its state. */
    async open() {
        const { parent, branchedAt } = this.identity;
        const { body } = await this.owner.transport.request('POST', `${this.base}/open`, {
            body: { client: this.owner.client, parent, messageId: parent ? branchedAt : undefined, defaults: this.defaults },
        });
        this.token = body.session;
        this.opened ??= body;
        return body;
    }

    /**
     * Write something other than values (series, checkpoints …), after all earlier writes.
     *
     * @param {string} method
     * @param {Route} route
     * @param {any} body
     * @param {WriteOptions} [options]
     * @param {{appends?: boolean}} [write] false: the server does not append the message of this write to its chain
     * @returns {Promise<any>}
     */
    async write(method, route, body, options, write) {
        this.mayWrite();
        const context = this.writeContext(options);
        this.#requireServer();
        this.saver.flush();
        return await this.run(async () => {
            await this.story.reconcile('save', write);
            this.#requireServer();
            try {
                const answer = await this.callInQueue(method, route, { body, headers: headersOf(context) });
                if (context.anchor) this.story.noteWrite();
                this.mirror.addPossibleOwnRevision(Number(answer.headers.get('x-revision')));
                return answer.body;
            } catch (error) {
                if (error instanceof ServerAwayError) this.markAway(error);
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
        this.#requireServer();
        try {
            const { body } = await this.owner.transport.request('GET', this.#at(route), { query });
            this.mayRead();
            return body;
        } catch (error) {
            if (error instanceof ServerAwayError) this.markAway(error);
            throw error;
        }
    }

    /** @param {Route} route */
    #at(route) {
        return typeof route === 'string' ? this.base + route : route.from;
    }

    #requireServer() {
        if (this.away) throw new ServerAwayError('the server is not back yet.');
    }

    /** @param {string} source */
    async readAgain(source) {
        await this.run(() => this.mirror.readAgain(source));
    }

    // Loading, losing the server, closing

    /** Load the chat for the first time, from the server or from the values kept in it. */
    async load() {
        return await this.run(async () => {
            try {
                if (this.away) throw new ServerAwayError('the server is not back yet.');
                await this.#openAndSync([]);
            } catch (error) {
                if (!(error instanceof ServerAwayError)) throw error;
                if (!this.away) this.markAway(error);
                if (this.opened === null) this.mirror.loadKept(this.findKept(), this.defaults);
            }
        });
    }

    /**
     * Open the chat, write the kept values to the server, and send the visible messages.
     *
     * @param {Array<{instanceId: string|null, key: string}>} except keys to leave as they are
     */
    async #openAndSync(except) {
        const begun = await beginBranch(this);
        this.mirror.replaceAll(await this.open(), except);
        this.away = false;
        await moveToServer(this);
        const report = await this.story.reconcile('load');
        if (begun) await settleBranch(this, begun, report);
    }

    /** @param {unknown} error */
    markAway(error) {
        this.away = true;
        this.owner.onServerLost(error);
    }

    /** Continue after the server is back. */
    async resume() {
        await this.run(async () => {
            if (!this.away || this.stale) return;
            try {
                await resendUnanswered(this);
                await this.#openAndSync(this.findKept()?.rows ?? []);
            } catch (error) {
                this.away = true;
                if (error instanceof ServerAwayError) this.owner.onServerLost(error);
                else this.owner.emit('error', error);
            }
        });
    }

    /** Return the values kept in the chat while the server was away; undefined if SillyTavern shows another chat. */
    findKept() {
        return this.isCurrent() ? this.kept.find() : undefined;
    }

    /** Close the chat here: no more reads and writes, and earlier writes are sent. */
    async retire() {
        const sent = this.saver.flush();
        this.stale = true;
        await sent.catch(() => {});
        await this.#tail;
        this.saver.dropFile();
    }
}
