/**
 * Sends writes to the server. Quick successive writes become one request, requests are sent in order,
 * and writes are kept in the chat while the server is away.
 */

import { ServerAwayError, ValueTrackerError } from '../errors.js';
import { ABSENT, newId } from '../state/json.js';
import { Ledger, newsOf, operationsOf } from '../state/ledger.js';
import { headersOf } from './transport.js';

/** @typedef {import('../state/values.js').Values} Values */
/** @typedef {import('../state/values.js').Instance} Instance */
/** @typedef {import('../state/values.js').WriteOptions} WriteOptions */
/** @typedef {import('../state/ledger.js').Entry} Entry */
/** @typedef {import('./session.js').Unanswered} Unanswered */

/** The server accepts at most this many operations in one batch. */
export const MOST_OPERATIONS = 1000;
/** SillyTavern waits this long after the last change before it saves metadata. */
const FILE_AFTER_MS = 1_000;

export class Saver {
    /** Requests that were sent but not answered: they may have been applied. @type {Unanswered[]} */
    unanswered = [];
    /** The anchor and actor for writes of the chat handler that is running. @type {import('../state/ledger.js').WriteContext|null} */
    handlerContext = null;
    /** The anchor and actor for writes of the batch that is running. @type {import('../state/ledger.js').WriteContext|null} */
    batchContext = null;

    #ledger = new Ledger();
    /** The end of the tick, for the `change` event. @type {ReturnType<typeof setTimeout>|null} */
    #telling = null;
    /** The latest time to send the waiting writes. */
    #due = 0;
    /** Entries that were taken from the ledger and are not answered yet. @type {Entry[][]} */
    #unconfirmed = [];
    /** @type {ReturnType<typeof setTimeout>|null} */
    #timer = null;
    /** @type {PromiseWithResolvers|null} */
    #waiter = null;
    /** @type {Promise<{revision: number, away: boolean, live: boolean}>|null} */
    #saving = null;
    #depth = 0;
    /** Entries that are kept in the chat, but not in its file yet. @type {Entry[]} */
    #unfiled = [];
    /** @type {ReturnType<typeof setTimeout>|null} */
    #filing = null;

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
        this.#schedule(options?.critical);
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
        if (this.#depth > 0) return { revision: this.session.revision, live: true, results: [] };
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
        return this.withAnchor(null, fn);
    }

    /**
     * Run a function whose writes are anchored to a message unless they name another.
     *
     * @template T
     * @param {import('../tavern/ids.js').Anchor|null} anchor
     * @param {() => T} fn writes after its first `await` are not covered
     * @returns {T}
     */
    withAnchor(anchor, fn) {
        const outer = this.handlerContext;
        this.handlerContext = { anchor, actor: 'extension' };
        try {
            return fn();
        } finally {
            this.handlerContext = outer;
        }
    }

    /** @param {boolean} [critical] true: send at the end of this tick */
    #schedule(critical = false) {
        this.#waiter ??= withResolvers();
        if (this.#depth > 0) return;
        const [pause, longest] = this.session.owner.saveMs;
        this.#telling ??= setTimeout(() => this.#tell(), 0);
        const now = Date.now();
        if (this.#timer === null) this.#due = now + longest;
        else clearTimeout(this.#timer);
        if (critical) this.#due = now;
        this.#timer = setTimeout(() => this.flush(), Math.max(0, Math.min(pause, this.#due - now)));
    }

    /**
     * Announce the writes of this tick.
     *
     * @param {Entry[]} [entries] that have left the ledger
     */
    #tell(entries) {
        if (this.#telling !== null) clearTimeout(this.#telling);
        this.#telling = null;
        const changes = entries ? newsOf(entries) : this.#ledger.news();
        if (changes.length && !this.session.stale) {
            this.session.owner.emit('change', { source: 'local', changes, revision: this.session.revision });
        }
    }

    /** Reading it sends the waiting writes at the end of this tick. @returns {Promise<{revision: number, away: boolean, live: boolean}>} */
    get saved() {
        this.session.mayRead();
        if (this.#depth > 0) {
            throw new ValueTrackerError('A batch is saved when it ends. Await the promise that batch() returns.', { code: 'in_batch' });
        }
        if (this.#timer !== null) this.#schedule(true);
        const saved = this.#waiter?.promise ?? this.#saving ?? Promise.resolve({ revision: this.session.revision, away: this.session.away, live: true });
        const filed = saved.then(async (result) => {
            await this.file();
            return result;
        });
        // A caller who does not await this promise gets the failure by the `error` event.
        filed.catch(() => {});
        return filed;
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
        if (this.#ledger.empty || this.#depth > 0) return this.#saving ?? Promise.resolve({ revision: this.session.revision, live: true, results: [] });
        const waiter = this.#waiter ?? withResolvers();
        this.#waiter = null;
        const entries = this.#ledger.take();
        this.#unconfirmed.push(entries);
        this.#tell(entries);
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
                if (!live) this.#markHidden(operations, answer.body.results);
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
        const live = !results.some((result) => result.live === false);
        if (!this.session.away) this.session.owner.emit('saved', { revision: this.session.revision, live });
        return { revision: this.session.revision, away: this.session.away, live, results };
    }

    /**
     * Mark the results of writes to a message or swipe that is not visible: they are kept, but have no effect now.
     *
     * @param {Array<{operation: any}>} operations
     * @param {any[]} results
     */
    #markHidden(operations, results) {
        operations.forEach(({ operation: { anchor } }, index) => {
            if (anchor && !this.session.story.shows(anchor)) results[index].live = false;
        });
    }

    /** Save the file of the chat if values are kept in the chat since. */
    async file() {
        if (!this.#unfiled.length || !this.session.isCurrent()) return;
        this.noteFiled();
        await this.session.save().catch((error) => console.warn('[ValueTracker] The chat could not be saved.', error));
    }

    /** The file of the chat has the kept values, or needs them no more. */
    noteFiled() {
        if (this.#filing !== null) clearTimeout(this.#filing);
        this.#filing = null;
        this.#unfiled = [];
    }

    /** The chat is no longer open: values that are not in its file are sent to the server when it is back. */
    dropFile() {
        const entries = this.#unfiled;
        this.noteFiled();
        for (const { actor, entries: group } of groupsOf(entries)) {
            // SillyTavern may have saved some of them: so their values are set, and nothing is added.
            this.session.owner.resendLater({ chatId: this.session.id, operations: outcomesOf(group), actor, key: newId() });
        }
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
            this.#unfiled.push(...entries);
            // As rarely as SillyTavern itself: each save writes the whole chat.
            if (this.#filing !== null) clearTimeout(this.#filing);
            this.#filing = setTimeout(() => void this.file(), FILE_AFTER_MS);
        }
        for (const entry of entries) {
            entry.done = true;
            entry.resolve?.(entry.after === ABSENT ? {} : { value: entry.after });
        }
    }
}

/**
 * Return the operations that set what entries have left.
 *
 * @param {Entry[]} entries
 */
function outcomesOf(entries) {
    return entries.flatMap((entry) => (entry.key === null ? operationsOf(entry)
        : operationsOf({ ...entry, operation: entry.after === ABSENT ? { op: 'remove', key: entry.key } : { op: 'set', key: entry.key, value: entry.after } })));
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
