/**
 * Value Tracker for SillyTavern extensions: state that belongs to a chat, saves itself, and follows
 * the story. README.md beside this file is the short guide; DESIGN.md describes all of it.
 *
 *     import { ValueTracker } from './client/valuetracker.js';
 *     const vt = await ValueTracker.connect({ extensionId: 'hit-points' });
 *     vt.onChat((chat) => { chat.state.hp ??= 100; });
 */

import { Chat } from './chat.js';
import { ChatNotLoadedError, ServerAwayError, StaleChatError, StaleStateError, ValueTrackerError } from './errors.js';
import { parseExact } from './state/exact.js';
import { newId } from './state/json.js';
import { Feed, notifyTabs } from './sync/feed.js';
import { Files } from './sync/files.js';
import { Following } from './sync/following.js';
import { Listeners } from './sync/listeners.js';
import { Probing } from './sync/probing.js';
import { resend } from './sync/resend.js';
import { Session } from './sync/session.js';
import { Transport, path } from './sync/transport.js';
import { Events } from './tavern/events.js';
import { Page } from './tavern/page.js';
import { Received } from './tavern/received.js';

export { Chat, ChatNotLoadedError, ServerAwayError, StaleChatError, StaleStateError, ValueTrackerError };
export { Instance } from './state/values.js';
export { exactText, isKept, parseExact, sum } from './state/exact.js';

/** @typedef {import('./state/values.js').WriteOptions} WriteOptions */
/** @typedef {import('./tavern/ids.js').Anchor} Anchor */
/**
 * @typedef {object} ConnectOptions
 * @property {string} extensionId
 * @property {string} [url] of the plugin, or of a standalone server
 * @property {(() => any)|null} [getContext] defaults to SillyTavern's; null: no page
 * @property {Record<string, string>} [headers] extra headers, such as a token
 * @property {boolean} [feed] follow changes made elsewhere
 * @property {boolean} [follow] send the server the visible messages
 * @property {Record<string, any>} [defaults] values for missing keys of a chat
 * @property {boolean} [exactIntegers] read integers beyond 2^53 as BigInt instead of rounding them
 * @property {number} [insertionDelayMs]
 * @property {[number, number]} [saveMs] how long writes wait for more writes: after the last one, and at most
 * @property {number[]} [retryMs] pauses between attempts of one request
 * @property {[number, number]} [probeMs] first and longest pause between probes of a server that is away
 */
/** @typedef {import('./sync/listeners.js').EventName} EventName */

export class ValueTracker {
    #transport;
    #page;
    #options;
    #listeners = new Listeners();
    /** @type {Set<(chat: Chat|null) => any>} */
    #chatHandlers = new Set();
    /** @type {Received|null} */
    #received;
    #defaults;
    /** @type {Files|null} */ #files = null;
    /** @type {Session|null} */
    #session = null;
    /** @type {Chat|null} */
    #chat = null;
    /** @type {Feed|null} */ #feed = null;
    /** @type {Set<Following>} */
    #following = new Set();
    /** @type {Events|null} */ #events = null;
    /** @type {'online'|'away'|'closed'} */
    #status = 'online';
    #probing;
    /** @type {import('./sync/session.js').Unanswered[]} */
    #toResend = [];
    #loads = 0;
    /** @type {import('./sync/session.js').Owner} */
    #owner;
    /** @type {() => void} */
    #onHide = () => {
        this.#session?.saver.flush(true).catch(() => {});
        void this.#session?.saver.file();
    };

    /**
     * Register the extension and, in SillyTavern, follow the open chat. The promise also resolves
     * when the server is away; `status` is then 'away'.
     *
     * @param {ConnectOptions} options
     * @returns {Promise<ValueTracker>}
     */
    static async connect(options) {
        const tracker = new ValueTracker(options);
        await tracker.#start();
        return tracker;
    }

    /** @param {ConnectOptions} options use `ValueTracker.connect` */
    constructor({
        extensionId, url = '/api/plugins/valuetracker', headers = {},
        getContext = /** @type {any} */ (globalThis).SillyTavern?.getContext ?? null,
        feed = true, follow = true, defaults = {}, exactIntegers = false, insertionDelayMs = 100, saveMs = [250, 1000], retryMs = [250, 1000], probeMs = [2000, 30000],
    }) {
        if (typeof extensionId !== 'string' || !extensionId) throw new TypeError('An extensionId is required.');
        this.#options = { feed, insertionDelayMs, plain: Object.keys(headers).length === 0 };
        this.#defaults = { ...defaults };
        this.#probing = new Probing(async () => {
            if (this.#status === 'away' && await this.#transport.probe()) await this.#serverBack();
            return this.#status !== 'away';
        }, probeMs);
        this.#page = getContext ? new Page(getContext) : null;
        this.#received = this.#page && new Received(this.#page, () => (this.#chat ? this.#session : null));
        this.#transport = new Transport({
            url, extensionId, retryMs, parse: exactIntegers ? parseExact : JSON.parse,
            headers: () => ({ ...this.#page?.getContext().getRequestHeaders?.(), ...headers }),
        });
        this.#owner = {
            transport: this.#transport,
            page: this.#page,
            follow,
            client: newId(),
            saveMs,
            emit: (name, argument) => this.#emit(name, argument),
            onServerLost: (error) => this.#serverLost(error),
            resendLater: (request) => this.#toResend.push(request),
            notifyTabs: (what) => {
                if (this.#session) notifyTabs({ extensionId, chatId: this.#session.id, ...what });
            },
        };
    }

    async #start() {
        try {
            await this.#transport.register();
        } catch (error) {
            if (!(error instanceof ServerAwayError)) throw error;
            this.#serverLost(error);
        }
        if (!this.#page) return;
        const files = this.#files = new Files(this.#transport, this.#page);
        this.#events = new Events({
            page: this.#page, load: () => this.#load(), session: () => this.#session,
            received: (index, type) => this.#received?.note(index, type),
            changed: (index) => void this.#chat?.reconcileInserts(index),
            deleted: (file) => files.handleDeleted(file),
        });
        globalThis.addEventListener?.('pagehide', this.#onHide);
        if (this.#page.current()) await this.#load();
    }

    /** @returns {string} */
    get extensionId() {
        return this.#transport.extensionId;
    }

    /** @returns {'online'|'away'|'closed'} */
    get status() {
        return this.#status;
    }

    // The chat

    /** The open chat. Throws before it is loaded. @returns {Chat} */
    get chat() {
        if (!this.#chat) throw new ChatNotLoadedError();
        return this.#chat;
    }

    get hasChat() {
        return this.#chat !== null;
    }

    /** @returns {Promise<Chat>} the open chat, once one is loaded */
    async whenChat() {
        return this.#chat ?? await new Promise((resolve) => {
            const off = this.on('chat', (chat) => {
                if (!chat) return;
                off();
                resolve(chat);
            });
        });
    }

    /**
     * Call a handler with each chat that is opened, and at once if one is open; with null when it is closed.
     *
     * @param {(chat: any) => any} handler
     * @param {{defaults?: Record<string, any>}} [options] values for missing keys
     * @returns {() => void} removes the handler
     */
    onChat(handler, { defaults } = {}) {
        Object.assign(this.#defaults, defaults);
        this.#chatHandlers.add(handler);
        if (this.#chat) {
            const { state } = this.#chat;
            this.#session?.saver.withoutAnchor(() => {
                for (const [key, value] of Object.entries(defaults ?? {})) if (!(key in state)) state[key] = value;
            });
            this.#handle(handler, this.#chat);
        }
        return () => this.#chatHandlers.delete(handler);
    }

    /**
     * Call a handler with the index and the type of each message that is received, once its chat is loaded and the
     * `onChat` handlers were called. Its writes belong to that message.
     *
     * @param {import('./tavern/received.js').MessageHandler} handler
     * @returns {() => void} removes the handler
     */
    onMessage(handler) {
        this.#received?.handlers.add(handler);
        return () => this.#received?.handlers.delete(handler);
    }

    /**
     * @param {(state: any, chat: Chat) => any} fn
     * @param {WriteOptions} [options]
     * @returns {Promise<{revision: number, live: boolean, results: any[]}>}
     */
    batch(fn, options) {
        return this.chat.batch(fn, options);
    }

    /** Send all waiting writes now. While the server is away, save the chat with them. */
    async flush() {
        await this.#session?.saver.flush();
        await this.#session?.saver.file();
    }

    /**
     * Open a chat where there is no page.
     *
     * @param {string} chatId
     * @param {{parent?: string, messageId?: string, defaults?: Record<string, any>}} [about]
     * @returns {Promise<Chat>}
     */
    async openChat(chatId, { parent, messageId, defaults = {} } = {}) {
        if (this.#page) throw new ValueTrackerError('In SillyTavern the library follows the open chat; openChat() is for programs without a page.', { code: 'has_page' });
        await this.#open({ id: chatId, parent, branchedAt: messageId }, defaults);
        return this.chat;
    }

    /** Load the chat that SillyTavern shows now: another one, or the same one again. */
    async #load() {
        // From here on nothing of the old chat may be used, even if the load fails.
        const old = this.#session;
        const retired = old?.retire();
        this.#chat = null;
        this.#session = null;
        this.#feed?.stop();
        const load = ++this.#loads;
        await retired;
        if (load !== this.#loads || this.#status === 'closed') return;
        const copied = await this.#page?.isCopy() ?? false;
        if (load !== this.#loads) return;
        const which = this.#page?.identify(copied) ?? null;
        if (which) await this.#open(which);
        else if (old) await this.#announce(null);
    }

    /**
     * @param {import('./sync/session.js').ChatIdentity} which
     * @param {Record<string, any>} [defaults]
     */
    async #open(which, defaults = {}) {
        const load = ++this.#loads;
        const old = this.#session;
        const session = new Session(this.#owner, which, { ...this.#defaults, ...defaults });
        session.away = this.#status === 'away';
        if (old) await old.retire();
        this.#session = session;
        this.#chat = null;
        this.#feed?.stop();
        await session.load().catch((error) => {
            this.#emit('error', error);
            throw error;
        });
        if (load !== this.#loads) return;
        if (session.stale || !session.isCurrent()) return;
        this.#chat = new Chat(session, this.#options);
        this.#listen(session);
        this.#files?.noteOpen(session.id);
        await this.#announce(this.#chat);
    }

    /** @param {Chat|null} chat */
    async #announce(chat) {
        this.#emit('chat', chat);
        await Promise.all([...this.#chatHandlers].map((handler) => this.#handle(handler, chat)));
        this.#received?.handleEarly();
    }

    /**
     * @param {(chat: Chat|null) => any} handler
     * @param {Chat|null} chat
     */
    async #handle(handler, chat) {
        try {
            // Initial values have no anchor: the last message did not cause them.
            await (this.#session ? this.#session.saver.withoutAnchor(() => handler(chat)) : handler(chat));
        } catch (error) {
            // The handler was still working on the chat that was open before.
            if (!(error instanceof StaleChatError)) console.error('[ValueTracker] A chat handler failed.', error);
        }
    }

    /** @param {Session} session */
    #listen(session) {
        this.#feed?.stop();
        if (!this.#options.feed || session.away || session.stale) return;
        const { extensionId } = this.#transport;
        const chatId = session.id;
        this.#feed = new Feed({
            transport: this.#transport,
            plain: this.#options.plain,
            query: () => ({ extensionId, chatId, since: session.mirror.cursor }),
            concerns: (write) => write.extensionId === extensionId && write.chatId === chatId,
            onEvent: (event) => session.run(() => session.mirror.applyFeedEvent(event)),
            onTold: (name) => session.stale || this.#emit(`${name}s`, undefined),
            onGap: () => session.run(() => session.mirror.readAgain('remote', true)),
            onFailure: () => this.#probe(),
        });
    }

    // The server

    /** @param {unknown} error */
    #serverLost(error) {
        if (this.#status !== 'online') return;
        console.warn('[ValueTracker] The server is away; values are kept in the chat.', error instanceof Error ? error.message : error);
        this.#status = 'away';
        if (this.#session) this.#session.away = true;
        this.#feed?.stop();
        this.#emit('status', 'away');
        this.#probing.start();
    }

    /** Ask a server that is away now if it is back. */
    async retry() {
        if (this.#status === 'away') await this.#probing.now();
    }

    async #probe() {
        if (this.#status === 'online' && !(await this.#transport.probe())) this.#serverLost(new ServerAwayError('the feed has ended.'));
    }

    async #serverBack() {
        try {
            await this.#transport.register();
            while (this.#toResend.length) {
                await resend(this.#transport, this.#toResend[0]);
                this.#toResend.shift();
            }
        } catch (error) {
            if (error instanceof ServerAwayError) return;
            this.#emit('error', error);
            this.#toResend.shift();
        }
        const session = this.#session;
        await session?.resume();
        // The server is away again, the tracker was closed, or another chat was opened without the server: try later.
        if (this.#status !== 'away' || this.#session?.away) return;
        this.#status = 'online';
        this.#emit('status', 'online');
        void this.#files?.archive();
        if (session && this.#chat) this.#listen(session);
    }

    /**
     * Call any route of the server for this extension. Writes carry an idempotency key and are retried.
     *
     * @param {string} method
     * @param {string} route with each segment encoded
     * @param {import('./sync/transport.js').RequestOptions} [options]
     * @returns {Promise<import('./sync/transport.js').Answer>}
     */
    request(method, route, options) {
        return this.#transport.request(method, route, options);
    }

    /**
     * Read the values of another extension.
     *
     * @param {string} extensionId
     */
    reading(extensionId) {
        const read = async (/** @type {string[]} */ ...segments) => (
            await this.#transport.request('GET', path('cross-extension', ...segments))).body;
        return {
            /** The whole state of a chat; null if the extension does not know it. @param {string} [chatId] */
            chat: (chatId = this.chat.id) => read('chats', extensionId, chatId, 'state'),
            /** The chat's own values. @param {string} [chatId] */
            data: (chatId = this.chat.id) => read('chats', extensionId, chatId, 'data'),
            instances: () => read('instances', extensionId),
        };
    }

    /**
     * Follow the changes of several extensions, this one or others, on one connection.
     *
     * @param {string[]} extensionIds up to 32
     * @param {(event: any) => any} onChange called with each event; it has `extensionId`, `revision` and `changes`
     * @param {import('./sync/following.js').FollowOptions} [options]
     * @returns {Promise<() => void>} stops following
     */
    async follow(extensionIds, onChange, options = {}) {
        const following = new Following(this.#transport, this.#options.plain, extensionIds, onChange, options);
        await following.start();
        this.#following.add(following);
        if (this.#status === 'closed') following.stop();
        return () => {
            following.stop();
            this.#following.delete(following);
        };
    }

    // Events

    /**
     * @param {EventName} name
     * @param {(argument: any) => any} handler
     * @returns {() => void} removes the handler
     */
    on(name, handler) {
        return this.#listeners.on(name, handler);
    }

    /**
     * @param {string} name
     * @param {any} argument
     */
    #emit(name, argument) {
        this.#listeners.emit(name, argument);
    }

    /** Save all writes and stop listening. */
    async close() {
        this.#loads++;
        const session = this.#session;
        this.#events?.stop();
        this.#feed?.stop();
        for (const following of this.#following) following.stop();
        globalThis.removeEventListener?.('pagehide', this.#onHide);
        this.#probing.stop();
        await session?.retire();
        this.#session = null;
        this.#chat = null;
        this.#status = 'closed';
        this.#emit('status', 'closed');
    }
}
