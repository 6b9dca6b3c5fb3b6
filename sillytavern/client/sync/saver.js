/**
 * Sends writes to the server. All writes of one tick become one request, requests are sent in order,
 * and writes are kept in the chat while the server is away.
 */

import { ServerAwayError, ValueTrackerError } from '../errors.js';
import { ABSENT, newId } from '../state/json.js';
import { Ledger, changesOf, operationsOf } from '../state/ledger.js';
import { headersOf } from './transport.js';

/** @typedef {import('../state/values.js').Values} Values */
/** @typedef {import('../state/values.js').Instance} Instance */
/** @typedef {import('../state/values.js').WriteOptions} WriteOptions */
/** @typedef {import('../state/ledger.js').Entry} Entry */
/** @typedef {import('./session.js').Unanswered} Unanswered */

/** The server accepts at most this many operations in one batch. */
export const MOST_OPERATIONS = 1000;

export class Saver {
    /** Requests that were sent but not answered: they may have been applied. @type {Unanswered[]} */
    unanswered = [];
    /** The anchor and actor for writes of the chat handler that is running. @type {import('../state/ledger.js').WriteContext|null} */
    handlerContext = null;
    /** The anchor and actor for writes of the batch that is running. @type {import('../state/ledger.js').WriteContext|null} */
    batchContext = null;

    #ledger = new Ledger();
    /** Entries that were taken from the ledger and are not answered yet. @type {Entry[][]} */
    #unconfirmed = [];
    /** @type {ReturnType<typeof setTimeout>|null} */
    #timer = null;
    /** @type {PromiseWithResolvers|null} */
    #waiter = null;
    /** @type {Promise<{revision: number, away: boolean}>|null} */
    #saving = null;
    #depth = 0;

    /** @param {import('./session.js').Session} session */
    constructor(session) {
        this.session = session;
    }

    /**
     * Record that a key of the state is about to be written.
     *
     * @param {Values} row
     * @param {string} key
     * @param {boolean} assigned
     */
    noteWrite(row, key, assigned) {
        this.session.mayWrite();
        this.#ledger.write(row, key, assigned, this.session.writeContext());
        this.#schedule();
    }

    /**
     * @param {Values} row
     * @param {import('../state/json.js').Operation} operation
     * @param {WriteOptions} [options]
     * @returns {Promise<any>}
     */
    operate(row, operation, options) {
        this.session.mayWrite();
        const result = this.#ledger.operate(row, operation, this.session.writeContext(options));
        this.#schedule();
        return result;
    }

    /**
     * @param {(state: any) => any} fn
     * @param {WriteOptions} [options]
     */
    async batch(fn, options) {
        this.session.mayWrite();
        // The anchor is taken when the batch starts, even if a new message arrives before it ends.
        const context = this.session.writeContext(options);
        if (this.#depth === 0) this.flush();
        const outer = this.batchContext;
        const mark = this.#ledger.mark();
        this.batchContext = context;
        this.#depth++;
        try {
            await fn(this.session.rows.get(null)?.live.state);
        } catch (error) {
            this.#ledger.undo(mark);
            throw error;
        } finally {
            this.#depth--;
            this.batchContext = outer;
        }
        if (this.#depth > 0) return { revision: this.session.revision, results: [] };
        this.session.mayRead();
        return await this.flush();
    }

    /**
     * Run a function whose writes have no anchor unless they name one.
     *
     * @template T
     * @param {() => T} fn writes after its first `await` are not covered
     * @returns {T}
     */
    withoutAnchor(fn) {
        const outer = this.handlerContext;
        this.handlerContext = { anchor: null, actor: 'extension' };
        try {
            return fn();
        } finally {
            this.handlerContext = outer;
        }
    }

    #schedule() {
        this.#waiter ??= withResolvers();
        if (this.#timer === null && this.#depth === 0) this.#timer = setTimeout(() => this.flush(), 0);
    }

    /** @returns {Promise<{revision: number, away: boolean}>} */
    get saved() {
        this.session.mayRead();
        if (this.#depth > 0) {
            throw new ValueTrackerError('A batch is saved when it ends. Await the promise that batch() returns.', { code: 'in_batch' });
        }
        return this.#waiter?.promise ?? this.#saving ?? Promise.resolve({ revision: this.session.revision, away: this.session.away });
    }

    /**
     * Send all writes so far and return the server's results.
     *
     * @param {boolean} [keepalive] true while the page is closing: the request may outlive it
     * @returns {Promise<any>}
     */
    flush(keepalive = false) {
        if (this.#timer !== null) clearTimeout(this.#timer);
        this.#timer = null;
        if (this.#ledger.empty || this.#depth > 0) return this.#saving ?? Promise.resolve({ revision: this.session.revision, results: [] });
        const waiter = this.#waiter ?? withResolvers();
        this.#waiter = null;
        const entries = this.#ledger.take();
        this.#unconfirmed.push(entries);
        const changes = changesOf(entries);
        if (changes.length && !this.session.stale) {
            this.session.owner.emit('change', { source: 'local', changes, revision: this.session.revision });
        }
        const saving = this.session.run(() => this.#send(entries, keepalive)).finally(() => {
            this.#unconfirmed.splice(this.#unconfirmed.indexOf(entries), 1);
            if (this.#saving === saving) this.#saving = null;
        });
        this.#saving = saving;
        saving.then(waiter.resolve, waiter.reject);
        return saving;
    }

    /**
     * Return true if a key has writes that the server has not answered.
     *
     * @param {Values} row
     * @param {string} key
     */
    isPending(row, key) {
        return this.#ledger.holds(row, key)
            || this.#unconfirmed.some((entries) => entries.some((entry) => !entry.done && entry.row === row
                && (entry.key === key || entry.key === null)));
    }

    /**
     * @param {Entry[]} all
     * @param {boolean} keepalive
     */
    async #send(all, keepalive) {
        if (!this.session.away && !keepalive) await this.session.story.reconcile('save');
        /** @type {any[]} */
        const results = [];
        /** @type {unknown} */
        let refusal = null;
        let hidden = false;
        for (const { actor, entries, operations } of groupsOf(all)) {
            if (this.session.away) {
                await this.#keepInChat(entries);
                continue;
            }
            if (operations.length === 0) {
                for (const entry of entries) entry.resolve?.({});
                continue;
            }
            const key = newId();
            try {
                const answer = await this.session.callInQueue('POST', '/batch', {
                    body: { operations: operations.map(({ operation }) => operation) }, key, keepalive, headers: headersOf({ actor }),
                });
                for (const entry of entries) entry.done = true;
                if (operations.some(({ operation }) => operation.anchor)) this.session.story.noteWrite();
                const live = answer.headers.get('x-live') !== 'false';
                hidden ||= !live || answer.headers.get('x-superseded') === 'true';
                await this.session.mirror.applyAnswer(operations, answer.body, live);
                results.push(...answer.body.results);
            } catch (error) {
                for (const entry of entries) entry.done = true;
                if (error instanceof ServerAwayError) {
                    this.session.markAway(error);
                    await this.#keepInChat(entries, this.#unansweredRequest(operations, actor, key));
                } else {
                    refusal ??= error;
                    for (const entry of entries) entry.reject?.(error);
                }
            }
        }
        // A write to a message that is not visible, one that a later message covers, and one that is refused do not
        // change the state: read it again.
        if ((hidden || refusal) && !this.session.stale && !this.session.away) await this.session.mirror.readAgain('remote');
        if (refusal) {
            this.session.owner.emit('error', refusal);
            throw refusal;
        }
        if (!this.session.away) this.session.owner.emit('saved', { revision: this.session.revision });
        return { revision: this.session.revision, away: this.session.away, results };
    }

    /**
     * @param {Array<{operation: any}>} operations
     * @param {string} actor
     * @param {string} key
     * @returns {Unanswered}
     */
    #unansweredRequest(operations, actor, key) {
        return { chatId: this.session.id, operations: operations.map(({ operation }) => operation), actor, key };
    }

    /**
     * @param {Entry[]} entries
     * @param {Unanswered} [sent] the request that was sent but not answered
     */
    async #keepInChat(entries, sent) {
        if (!this.session.isCurrent()) {
            // SillyTavern has already replaced the metadata with that of another chat.
            for (const { actor, operations } of sent ? [] : groupsOf(entries)) {
                this.session.owner.resendLater(this.#unansweredRequest(operations, actor, newId()));
            }
            if (sent) this.session.owner.resendLater(sent);
        } else {
            if (sent) this.unanswered.push(sent);
            this.session.kept.record(entries, this.session.opened !== null, (id) => {
                const row = /** @type {Instance} */ (this.session.rows.get(id));
                return { id, characterId: row.characterId, name: row.name };
            }, sent !== undefined);
            await this.session.save();
        }
        for (const entry of entries) {
            entry.done = true;
            entry.resolve?.(entry.after === ABSENT ? {} : { value: entry.after });
        }
    }
}

/**
 * Split entries into requests: one actor each, and no more operations than the server accepts.
 *
 * @param {Entry[]} entries
 */
function groupsOf(entries) {
    /** @typedef {{operation: any, entry: Entry}} Sent */
    /** @type {Array<{actor: string, entries: Entry[], operations: Sent[]}>} */
    const groups = [];
    for (const entry of entries) {
        const operations = operationsOf(entry).map((operation) => ({ operation, entry }));
        const last = groups.at(-1);
        if (last && last.actor === entry.context.actor && last.operations.length + operations.length <= MOST_OPERATIONS) {
            last.entries.push(entry);
            last.operations.push(...operations);
        } else {
            groups.push({ actor: entry.context.actor, entries: [entry], operations });
        }
    }
    return groups;
}

/** @typedef {{promise: Promise<any>, resolve: (value: any) => void, reject: (error: unknown) => void}} PromiseWithResolvers */

/** @returns {PromiseWithResolvers} */
function withResolvers() {
    /** @type {any} */
    const made = {};
    made.promise = new Promise((resolve, reject) => Object.assign(made, { resolve, reject }));
    // A caller who does not await this promise gets the failure by the `error` event.
    made.promise.catch(() => {});
    return made;
}
