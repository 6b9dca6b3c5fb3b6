/**
 * The handle of an open chat, for extension authors. It is valid until the chat changes.
 */

import { StaleChatError, ValueTrackerError } from './errors.js';
import { Branches, Checkpoints } from './routes/checkpoints.js';
import { Operations, Processed, Series } from './routes/records.js';
import { newId, plainJson } from './state/json.js';
import { Instance, Values } from './state/values.js';
import { path } from './sync/transport.js';
import { swipeIndex } from './tavern/ids.js';
import { Inserts } from './tavern/inserts.js';

/** @typedef {import('./state/values.js').WriteOptions} WriteOptions */
/** @typedef {import('./tavern/ids.js').Anchor} Anchor */
/** @typedef {{id: string, characterId: string, name: string|null}} AboutInstance */
/**
 * @typedef {object} Snapshot
 * @property {Record<string, any>} data
 * @property {Array<{instance: AboutInstance, data: Record<string, any>}>} instances
 */
/**
 * @typedef {object} HistoryQuery
 * @property {string} [instanceId]
 * @property {string} [key]
 * @property {string|number} [after] a revision or a time
 * @property {string|number} [before]
 * @property {number} [limit]
 * @property {'asc'|'desc'} [order]
 * @property {string} [cursor]
 */

/** @typedef {{revision: number, changed: number, warnings: string[], changes?: import('./routes/checkpoints.js').ChangedValue[]}} Restored */
/** @typedef {{messageId: string, swipe?: string, hash?: string}} Visible */

/** @param {Visible} one */
const linkOf = (one) => ({ ...one, swipe: String(one.swipe ?? '0') });

export class Chat {
    #session;
    #inserts;

    /**
     * @param {import('./sync/session.js').Session} session
     * @param {{insertionDelayMs: number}} options
     */
    constructor(session, { insertionDelayMs }) {
        this.#session = session;
        this.#inserts = new Inserts({
            extensionId: session.owner.transport.extensionId,
            chatId: session.id,
            delayMs: insertionDelayMs,
            context: () => {
                session.mayWrite();
                if (!session.owner.page) throw new ValueTrackerError('There are no messages: the tracker has no page.', { code: 'no_page' });
                return session.owner.page.getContext();
            },
            kept: () => session.owner.page?.kept() ?? {},
        });
        /** Queued and running operations. */
        this.operations = new Operations(session);
        /** Named revisions of this chat. */
        this.checkpoints = new Checkpoints(session);
        /** Chats that started from this one. */
        this.branches = new Branches(session);
    }

    get #own() {
        this.#session.mayRead();
        return /** @type {Values} */ (this.#session.rows.get(null));
    }

    /** @returns {string} */
    get id() {
        return this.#session.id;
    }

    /** True once the chat is no longer open. Every other member then throws. */
    get stale() {
        return this.#session.stale;
    }

    /** The chat's live values: every write to them is saved. @returns {any} */
    get state() {
        return this.#own.state;
    }

    /** Resolves when all writes so far are saved. `live` is false if one of them was to a hidden message or swipe. @returns {Promise<{revision: number, away: boolean, live: boolean}>} */
    get saved() {
        return this.#session.saver.saved;
    }

    /** The latest revision known here. */
    get revision() {
        return this.#session.revision;
    }

    /** True while the server is away and values are kept in the chat. */
    get away() {
        return this.#session.away;
    }

    /** The answer of `open`; null if the server was away. @returns {any} */
    get opened() {
        return this.#session.opened;
    }

    /**
     * The chat this chat is a branch of, and the record of what it began with; null if it is no branch.
     *
     * @returns {{chatId: string, checkpoint: string|null, messageId: string|null, createdAt: string,
     *     record: {name: string|null, createdAt: string, versions: Record<string, number>, rows: Record<string, number>}}|null}
     */
    get origin() {
        return this.#session.opened?.origin ?? null;
    }

    /**
     * The checkpoint that this load started a branch from. `differs` is true if its messages are not those of the checkpoint.
     *
     * @returns {import('./sync/branching.js').Begun|null}
     */
    get begun() {
        return this.#session.begun;
    }

    /** @returns {string[]} */
    get warnings() {
        return this.#session.opened?.warnings ?? [];
    }

    /**
     * Send all writes of `fn` as one request and one revision. If `fn` throws, they are undone and nothing is sent.
     *
     * @param {(state: any, chat: Chat) => any} fn
     * @param {WriteOptions} [options]
     * @returns {Promise<{revision: number, live: boolean, results: any[]}>}
     */
    batch(fn, options) {
        return this.#session.saver.batch((state) => fn(state, this), options);
    }

    /**
     * Save a player's edit: it has no anchor, so no swipe undoes it.
     *
     * @param {(state: any, chat: Chat) => any} fn
     * @returns {Promise<{revision: number, live: boolean, results: any[]}>}
     */
    edit(fn) {
        return this.batch(fn, { actor: 'user', anchor: null });
    }

    /** @type {Values['set']} */
    set(key, value, options) {
        return this.#own.set(key, value, options);
    }

    /** @type {Values['remove']} */
    remove(key, options) {
        return this.#own.remove(key, options);
    }

    /** @type {Values['increment']} */
    increment(key, by, options) {
        return this.#own.increment(key, by, options);
    }

    /** @type {Values['append']} */
    append(key, value, options) {
        return this.#own.append(key, value, options);
    }

    /** @type {Values['addToSet']} */
    addToSet(key, value, options) {
        return this.#own.addToSet(key, value, options);
    }

    /** @type {Values['pull']} */
    pull(key, value, options) {
        return this.#own.pull(key, value, options);
    }

    /** @type {Values['merge']} */
    merge(key, value, options) {
        return this.#own.merge(key, value, options);
    }

    /** @type {Values['clear']} */
    clear(options) {
        return this.#own.clear(options);
    }

    // Instances

    /** @returns {Instance[]} */
    get instances() {
        this.#session.mayRead();
        return [...this.#session.rows.values()].filter((row) => row instanceof Instance);
    }

    /**
     * @param {string} id
     * @returns {Instance}
     */
    instance(id) {
        this.#session.mayRead();
        const found = this.#session.rows.get(id);
        if (found instanceof Instance) return found;
        throw new ValueTrackerError('Instance not found', { code: 'instance_not_found', details: { id } });
    }

    /**
     * Create an instance of a character in this chat.
     *
     * @param {{id?: string, characterId?: string, name?: string}} [about]
     * @returns {Promise<Instance>}
     */
    async addInstance({ id = newId(), characterId, name } = {}) {
        const session = this.#session;
        const of = characterId ?? session.owner.page?.characterId() ?? 'chat';
        await session.write('POST', { from: path('instances') }, { id, characterId: of, name, chatId: session.id }, { anchor: null });
        await session.readAgain('remote');
        return this.instance(id);
    }

    /** @param {string} id */
    async removeInstance(id) {
        await this.#session.write('DELETE', { from: path('instances', id) }, undefined, { anchor: null });
        await this.#session.readAgain('remote');
    }

    /**
     * Return plain copies of all values.
     *
     * @returns {Snapshot}
     */
    snapshot() {
        return {
            data: plainJson(this.state),
            instances: this.instances.map((one) => ({
                instance: { id: one.id, characterId: one.characterId, name: one.name }, data: plainJson(one.state),
            })),
        };
    }

    // The past

    /**
     * @param {HistoryQuery} [query]
     * @returns {Promise<{items: any[], next: string|null}>}
     */
    history({ instanceId, ...query } = {}) {
        return this.#session.read(instanceId === undefined ? '/history' : { from: `${path('instances', instanceId)}/history` }, query);
    }

    /**
     * Read the whole state at a revision, at a time, or as of a message.
     *
     * @param {number|string|{message: number}|{messageId: string}} point
     * @returns {Promise<any>}
     */
    at(point) {
        const at = typeof point !== 'object' ? String(point)
            : `message:${'messageId' in point ? point.messageId : this.#session.anchorOf(point.message).messageId}`;
        return this.#session.read('/state', { at });
    }

    /**
     * @param {number|string} from
     * @param {number|string} [to]
     * @returns {Promise<Array<{key: string, before?: any, after?: any, instanceId?: string|null, space?: string}>>}
     */
    diff(from, to) {
        return this.#session.read('/diff', { from, to });
    }

    /**
     * Restore the state of a revision, as a new revision. A dry run changes nothing, and `changes` lists what would change.
     *
     * @param {number} revision
     * @param {{dryRun?: boolean}} [options]
     * @returns {Promise<Restored>}
     */
    restore(revision, { dryRun = false } = {}) {
        return this.#restore('/restore', { revision, dryRun });
    }

    /**
     * Restore one key of the chat, or of an instance, to its value at a revision. A key that was absent then is removed.
     *
     * @param {string} key
     * @param {number} revision
     * @param {{instanceId?: string, dryRun?: boolean}} [options]
     * @returns {Promise<Restored>}
     */
    restoreKey(key, revision, { instanceId, dryRun = false } = {}) {
        const route = `${path('data', key)}/restore`;
        return this.#restore(instanceId === undefined ? route : { from: path('instances', instanceId) + route }, { revision, dryRun });
    }

    /**
     * @param {string|{from: string}} route
     * @param {{revision: number, dryRun: boolean}} body
     */
    async #restore(route, body) {
        const report = await this.#session.write('POST', route, body, { anchor: null });
        if (!body.dryRun) await this.#session.readAgain('restore');
        return report;
    }

    /**
     * Compare the beginning of this branch with the record it was made from, and with what the caller finds.
     *
     * @param {import('./routes/checkpoints.js').Actual} [actual]
     * @returns {Promise<import('./routes/checkpoints.js').Validation>} `validated` is false if this chat is no branch
     */
    validate(actual) {
        return this.#session.write('POST', '/validate', actual === undefined ? {} : { actual }, { anchor: null });
    }

    // Series and processed ids

    /** @param {string} name */
    series(name) {
        return new Series(this.#session, name);
    }

    /** @param {string} set */
    processed(set) {
        return new Processed(this.#session, set);
    }

    // Messages

    /** @param {number} index */
    messageId(index) {
        return this.#session.anchorOf(index).messageId;
    }

    /** @param {number} index */
    swipeId(index) {
        return this.#session.anchorOf(index).swipe;
    }

    /**
     * Return the index of the swipe with an id; −1 if it does not exist.
     *
     * @param {number} index
     * @param {string} swipeId
     */
    swipeIndex(index, swipeId) {
        this.#session.mayRead();
        const message = this.#session.owner.page?.messages[index];
        return message ? swipeIndex(message, swipeId) : -1;
    }

    /**
     * Return the anchor of a message. Without an index, return the anchor that a write would get now.
     *
     * @param {number} [index]
     * @returns {Anchor|null}
     */
    anchor(index) {
        this.#session.mayRead();
        return index === undefined ? this.#session.writeContext().anchor : this.#session.anchorOf(index);
    }

    /**
     * @param {string} messageId
     * @returns {number} −1 if there is no such message
     */
    messageIndex(messageId) {
        this.#session.mayRead();
        const messages = this.#session.owner.page?.messages ?? [];
        return messages.findIndex((_, index) => {
            try {
                return this.messageId(index) === messageId;
            } catch {
                return false;
            }
        });
    }

    /**
     * Send the server the visible messages. In SillyTavern the library does this by itself.
     *
     * @param {Visible[]} [anchors]
     * @returns {Promise<any>} the report, or null if nothing has changed
     */
    async reconcile(anchors) {
        const session = this.#session;
        session.mayWrite();
        session.saver.flush();
        return await session.run(() => (anchors
            ? session.story.sendChain(anchors.map(linkOf), 'asked')
            : session.story.reconcile('asked')));
    }

    /**
     * Use after `stale`: make the messages of this page the story, and undo what another tab made visible.
     *
     * @param {Visible[]} [anchors]
     * @returns {Promise<any>} the report, or null
     */
    async insist(anchors) {
        const session = this.#session;
        session.mayWrite();
        return await session.run(() => session.story.insist(anchors?.map(linkOf)));
    }

    /** @type {Inserts['insertOnce']} */
    insertOnce(index, what) {
        return this.#inserts.insertOnce(index, what);
    }

    /** @type {Inserts['hasMarker']} */
    hasMarker(index, id) {
        return this.#inserts.hasMarker(index, id);
    }

    /** For the library itself: called when a message was received or changed. @param {number} index */
    async reconcileInserts(index) {
        if (!this.#session.isCurrent()) return;
        await this.#inserts.reconcileLater(index).catch((error) => {
            // Another chat was opened in the meantime.
            if (!(error instanceof StaleChatError)) console.warn('[ValueTracker]', error);
        });
    }

    /** @type {Inserts['reconcileMessage']} */
    reconcileMessage(index) {
        return this.#inserts.reconcileMessage(index);
    }
}
