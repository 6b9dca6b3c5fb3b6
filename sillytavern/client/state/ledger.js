/**
 * The writes that are not sent yet, in order.
 *
 * Assignments to one key with one anchor and actor share an entry, and its operation is derived when
 * it is sent. An explicit operation, such as an increment, is an entry of its own.
 */

import { ABSENT, applied, equalJson, operationsFor } from './json.js';

/** @typedef {import('../tavern/ids.js').Anchor} Anchor */
/** @typedef {import('./json.js').Operation} Operation */
/** @typedef {{instanceId: string|null, live: import('./live.js').Live}} Row */
/** @typedef {{anchor: Anchor|null, actor: 'extension'|'user'}} WriteContext */
/**
 * @typedef {object} Entry
 * @property {Row} row
 * @property {string|null} key null: all keys
 * @property {WriteContext} context
 * @property {any} before
 * @property {any} after
 * @property {boolean} closed
 * @property {boolean} done true once the server has answered
 * @property {boolean} assigned
 * @property {any} told the value that was last announced; of all keys: true if they were
 * @property {Operation|null} operation
 * @property {((result: any) => void)|null} resolve
 * @property {((error: unknown) => void)|null} reject
 */

export class Ledger {
    /** @type {Entry[]} */
    #entries = [];

    get empty() {
        return this.#entries.length === 0;
    }

    /** Close all entries and return their number, for `undo`. */
    mark() {
        for (const entry of this.#entries) close(entry);
        return this.#entries.length;
    }

    /**
     * @param {Row} row
     * @param {string} key
     */
    holds(row, key) {
        return this.#entries.some((entry) => entry.row === row && (entry.key === key || entry.key === null));
    }

    /**
     * Record that a key is about to be written.
     *
     * @param {Row} row
     * @param {string} key
     * @param {boolean} assigned
     * @param {WriteContext} context
     */
    write(row, key, assigned, context) {
        const open = this.#open(row, key);
        if (open && sameContext(open.context, context)) {
            open.assigned ||= assigned;
            return;
        }
        if (open) close(open);
        const before = row.live.copy(key);
        this.#entries.push({
            row, key, context, assigned, before, after: ABSENT, told: before, closed: false, done: false,
            operation: null, resolve: null, reject: null,
        });
    }

    /**
     * @param {Row} row
     * @param {Operation} operation
     * @param {WriteContext} context
     * @returns {Promise<any>} the server's result
     */
    operate(row, operation, context) {
        const key = operation.key ?? null;
        const keys = key === null ? row.live.keys() : [key];
        for (const name of keys) {
            const open = this.#open(row, name);
            if (open) close(open);
        }
        const before = key === null ? keys.map((name) => [name, row.live.copy(name)]) : row.live.copy(key);
        const after = key === null ? ABSENT : applied(before, operation);
        for (const name of keys) row.live.put(name, after);
        const promise = new Promise((resolve, reject) => {
            this.#entries.push({
                row, key, context, before, after, told: key === null ? false : before, closed: true, done: false, assigned: true, operation, resolve, reject,
            });
        });
        // A caller who ignores the promise gets the failure by the `error` event.
        promise.catch(() => {});
        return promise;
    }

    /**
     * Undo all writes after a mark.
     *
     * @param {number} mark
     */
    undo(mark) {
        const taken = this.#entries.splice(mark);
        for (const entry of taken.reverse()) {
            if (entry.key === null) for (const [name, value] of entry.before) entry.row.live.put(name, value);
            else entry.row.live.put(entry.key, entry.before);
            entry.reject?.(new Error('The batch was undone.'));
        }
    }

    /** Return the changes that were not announced yet. */
    news() {
        return newsOf(this.#entries);
    }

    /** @returns {Entry[]} all entries, which leave the ledger */
    take() {
        this.mark();
        return this.#entries.splice(0);
    }

    /**
     * @param {Row} row
     * @param {string} key
     */
    #open(row, key) {
        return this.#entries.findLast((entry) => entry.row === row && entry.key === key && !entry.closed);
    }
}

/** @param {Entry} entry */
function close(entry) {
    if (entry.closed || entry.key === null) return;
    entry.closed = true;
    entry.after = entry.row.live.copy(entry.key);
}

/**
 * Return the operations of an entry in the form of the batch route.
 *
 * @param {Entry} entry
 * @returns {Array<Operation & {instanceId?: string, anchor?: Anchor}>}
 */
export function operationsOf({ row, key, context, before, after, assigned, operation }) {
    const list = operation || key === null ? [operation ?? { op: 'clear' }] : operationsFor(key, before, after, assigned);
    return list.map((one) => ({
        ...one,
        ...(row.instanceId === null ? {} : { instanceId: row.instanceId }),
        ...(context.anchor ? { anchor: context.anchor } : {}),
    }));
}

/**
 * Return the change of each key that entries write, as far as it was not announced yet.
 *
 * @param {Entry[]} entries
 */
export function newsOf(entries) {
    /** @type {Array<{instanceId: string|null, key: string, before?: any, after?: any}>} */
    const changes = [];
    for (const entry of entries) {
        const { row, key } = entry;
        const after = entry.closed || key === null ? entry.after : row.live.copy(key);
        const rows = key !== null ? [[key, entry.told]] : entry.told ? [] : entry.before;
        entry.told = key === null ? true : after;
        for (const [name, old] of rows) {
            const known = changes.find((change) => change.instanceId === row.instanceId && change.key === name);
            /** @type {{instanceId: string|null, key: string, before?: any, after?: any}} */
            const change = known ?? { instanceId: row.instanceId, key: name, ...(old === ABSENT ? {} : { before: old }) };
            delete change.after;
            if (after !== ABSENT) change.after = after;
            if (!known) changes.push(change);
        }
    }
    return changes.filter((change) => 'before' in change !== 'after' in change || ('before' in change && !equalJson(change.before, change.after)));
}

/**
 * @param {WriteContext} one
 * @param {WriteContext} other
 */
function sameContext(one, other) {
    return one.actor === other.actor && one.anchor?.messageId === other.anchor?.messageId
        && one.anchor?.swipe === other.anchor?.swipe;
}

