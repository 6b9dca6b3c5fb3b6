/**
 * Gets what is written to the server: collected by the tick, sent in order, kept with the chat
 * while nobody answers.
 */

import { ServerAwayError, ValueTrackerError } from '../errors.js';
import { ABSENT, newId } from '../state/json.js';
import { Ledger, changesOf, operationsOf } from '../state/ledger.js';
import { headersOf } from './transport.js';

/** @typedef {import('../state/values.js').Values} Values */
/** @typedef {import('../state/values.js').Instance} Instance */
/** @typedef {import('../state/values.js').WriteOptions} WriteOptions */
/** @typedef {import('../state/ledger.js').Entry} Entry */
/** @typedef {import('./session.js').Late} Late */

/** As many as one request may hold. */
export const MOST_OPERATIONS = 1000;

export class Saver {
    /** Sent, and we do not know whether it arrived. @type {Late[]} */
    unanswered = [];
    /** Where the writes of the handler that is being called belong. @type {import('../state/ledger.js').Place|null} */
    handlerPlace = null;
    /** Where the writes of the batch under way belong. @type {import('../state/ledger.js').Place|null} */
    batchPlace = null;

    #ledger = new Ledger();
    /** Taken from the ledger, and not yet answered. @type {Entry[][]} */
    #parcels = [];
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
     * Somebody is about to write to a key of the state.
     *
     * @param {Values} row
     * @param {string} key
     * @param {boolean} assigned
     */
    written(row, key, assigned) {
        this.session.mayWrite();
        this.#ledger.write(row, key, assigned, this.session.place());
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
        const result = this.#ledger.operate(row, operation, this.session.place(options));
        this.#schedule();
        return result;
    }

    /**
     * @param {(state: any) => any} fn
     * @param {WriteOptions} [options]
     */
    async batch(fn, options) {
        this.session.mayWrite();
        // The place is that of the beginning, also if the story goes on meanwhile.
        const place = this.session.place(options);
        if (this.#depth === 0) this.flush();
        const outer = this.batchPlace;
        const mark = this.#ledger.mark();
        this.batchPlace = place;
        this.#depth++;
        try {
            await fn(this.session.rows.get(null)?.live.state);
        } catch (error) {
            this.#ledger.undo(mark);
            throw error;
        } finally {
            this.#depth--;
            this.batchPlace = outer;
        }
        if (this.#depth > 0) return { revision: this.session.revision, results: [] };
        this.session.mayRead();
        return await this.flush();
    }

    /**
     * What is written meanwhile belongs to no message, unless it says to which.
     *
     * @template T
     * @param {() => T} fn what it does later, after waiting for something, is not meant
     * @returns {T}
     */
    inNoMessage(fn) {
        const outer = this.handlerPlace;
        this.handlerPlace = { anchor: null, actor: 'extension' };
        try {
            return fn();
        } finally {
            this.handlerPlace = outer;
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
            throw new ValueTrackerError('A batch is saved when it ends: await what it returns.', { code: 'in_batch' });
        }
        return this.#waiter?.promise ?? this.#saving ?? Promise.resolve({ revision: this.session.revision, away: this.session.away });
    }

    /**
     * Sends what was written. → what the server says of it.
     *
     * @param {boolean} [keepalive] the page is about to close
     * @returns {Promise<any>}
     */
    flush(keepalive = false) {
        if (this.#timer !== null) clearTimeout(this.#timer);
        this.#timer = null;
        if (this.#ledger.empty || this.#depth > 0) return this.#saving ?? Promise.resolve({ revision: this.session.revision, results: [] });
        const waiter = this.#waiter ?? withResolvers();
        this.#waiter = null;
        const parcel = this.#ledger.take();
        this.#parcels.push(parcel);
        const changes = changesOf(parcel);
        if (changes.length && !this.session.stale) {
            this.session.owner.emit('change', { source: 'local', changes, revision: this.session.revision });
        }
        const saving = this.session.run(() => this.#send(parcel, keepalive)).finally(() => {
            this.#parcels.splice(this.#parcels.indexOf(parcel), 1);
            if (this.#saving === saving) this.#saving = null;
        });
        this.#saving = saving;
        saving.then(waiter.resolve, waiter.reject);
        return saving;
    }

    /**
     * Whether a key has writes the server has not answered.
     *
     * @param {Values} row
     * @param {string} key
     */
    isPending(row, key) {
        return this.#ledger.holds(row, key)
            || this.#parcels.some((parcel) => parcel.some((entry) => !entry.done && entry.row === row
                && (entry.key === key || entry.key === null)));
    }

    /**
     * @param {Entry[]} parcel
     * @param {boolean} keepalive
     */
    async #send(parcel, keepalive) {
        if (!this.session.away && !keepalive) await this.session.story.follow('save');
        /** @type {any[]} */
        const results = [];
        /** @type {unknown} */
        let refusal = null;
        let hidden = false;
        for (const { actor, entries, operations } of groupsOf(parcel)) {
            if (this.session.away) {
                await this.#keep(entries);
                continue;
            }
            if (operations.length === 0) {
                for (const entry of entries) entry.resolve?.({});
                continue;
            }
            const key = newId();
            try {
                const answer = await this.session.callInLane('POST', '/batch', {
                    body: { operations: operations.map(({ operation }) => operation) }, key, keepalive, headers: headersOf({ actor }),
                });
                for (const entry of entries) entry.done = true;
                if (operations.some(({ operation }) => operation.anchor)) this.session.story.written();
                hidden ||= answer.headers.get('x-live') === 'false';
                this.session.mirror.answered(operations, answer.body);
                results.push(...answer.body.results);
            } catch (error) {
                for (const entry of entries) entry.done = true;
                if (error instanceof ServerAwayError) {
                    this.session.lose(error);
                    await this.#keep(entries, this.#late(operations, actor, key));
                } else {
                    refusal ??= error;
                    for (const entry of entries) entry.reject?.(error);
                }
            }
        }
        // A write to a hidden place has no effect; one that was refused none either.
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
     * @returns {Late}
     */
    #late(operations, actor, key) {
        return { chatId: this.session.id, operations: operations.map(({ operation }) => operation), actor, key };
    }

    /**
     * @param {Entry[]} entries
     * @param {Late} [sent] the request of which we do not know whether it arrived
     */
    async #keep(entries, sent) {
        if (!this.session.isCurrent()) {
            // SillyTavern has put the metadata of another chat in the place of ours.
            for (const { actor, operations } of sent ? [] : groupsOf(entries)) {
                this.session.owner.later(this.#late(operations, actor, newId()));
            }
            if (sent) this.session.owner.later(sent);
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
 * Runs of entries by one actor, no more than a request may hold.
 *
 * @param {Entry[]} parcel
 */
function groupsOf(parcel) {
    /** @typedef {{operation: any, entry: Entry}} Sent */
    /** @type {Array<{actor: string, entries: Entry[], operations: Sent[]}>} */
    const groups = [];
    for (const entry of parcel) {
        const operations = operationsOf(entry).map((operation) => ({ operation, entry }));
        const last = groups.at(-1);
        if (last && last.actor === entry.place.actor && last.operations.length + operations.length <= MOST_OPERATIONS) {
            last.entries.push(entry);
            last.operations.push(...operations);
        } else {
            groups.push({ actor: entry.place.actor, entries: [entry], operations });
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
    // Whoever does not wait hears of a failure by the `error` event.
    made.promise.catch(() => {});
    return made;
}
