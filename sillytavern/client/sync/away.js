/**
 * Values written while the server is away. They are kept in the chat's metadata until it is back.
 *
 * Only the last value of each key is kept, not its operations: without a server a list of operations
 * would grow without end. The rows are a list, not an object, because a key may be named `__proto__`.
 *
 *     away: [{extensionId, id, rows: [{instanceId, key, value?, base?, known, ground?, sent?, anchor, actor}], instances}]
 *
 * `base` is the server's value at the last read; `known` is false if there was no read. `sent` holds
 * values that we sent without an answer: if the server has one of them, no other client has written
 * the key since, and our newer value may be written. `ground` is the last value written without an
 * anchor before a message wrote the key: it is the value again when that message is deleted.
 */

import { exactText, holdsBigInt, parseExact } from '../state/exact.js';
import { ABSENT, equalJson, newId, overwrites, plainJson } from '../state/json.js';

/** @typedef {import('../state/ledger.js').Entry} Entry */
/**
 * @typedef {object} AwayRow
 * @property {string|null} instanceId
 * @property {string} key
 * @property {any} [value] missing: the key was removed
 * @property {any} [base] missing: the key did not exist
 * @property {boolean} known false if the server's value was never read
 * @property {Array<string|null>} [sent] as JSON text; null: removed
 * @property {{text: string|null, actor: string}} [ground] as JSON text; null: removed
 * @property {import('../tavern/ids.js').Anchor|null} anchor
 * @property {string} actor
 * @property {Array<'value'|'base'>} [exact] the fields kept as JSON text, because SillyTavern cannot save a BigInt
 */
/** @typedef {{extensionId: string, id: string, rows: AwayRow[], instances: any[]}} AwayEntry */

export class Away {
    /**
     * @param {string} extensionId
     * @param {() => {away?: any[]}} kept returns the library's part of the chat's metadata
     */
    constructor(extensionId, kept) {
        this.extensionId = extensionId;
        this.kept = kept;
    }

    /** @returns {AwayEntry|undefined} */
    find() {
        const { away } = this.kept();
        return Array.isArray(away) ? away.find((entry) => entry?.extensionId === this.extensionId) : undefined;
    }

    /**
     * @param {Entry[]} entries
     * @param {boolean} known true if the entries' `before` values come from the server
     * @param {(id: string) => any} describe
     * @param {boolean} [sent] true if the server may have received them
     */
    record(entries, known, describe, sent = false) {
        const kept = this.kept();
        if (!Array.isArray(kept.away)) kept.away = [];
        let entry = this.find();
        if (!entry) kept.away.push(entry = { extensionId: this.extensionId, id: '', rows: [], instances: [] });
        // The id is part of the idempotency keys: new content needs a new one.
        entry.id = newId();
        for (const { row, key, before, after, context } of entries) {
            const { instanceId } = row;
            if (instanceId !== null && !entry.instances.some((instance) => instance.id === instanceId)) {
                entry.instances.push(describe(instanceId));
            }
            for (const [name, old] of key === null ? before : [[key, before]]) {
                let kept = entry.rows.find((one) => one.instanceId === instanceId && one.key === name);
                if (kept && context.anchor === null) delete kept.ground;
                else if (kept && kept.anchor === null) kept.ground = { text: textOf(kept), actor: kept.actor };
                if (!kept) {
                    kept = { instanceId, key: name, known, anchor: null, actor: 'extension' };
                    if (known && old !== ABSENT) setField(kept, 'base', old);
                    entry.rows.push(kept);
                }
                kept.anchor = context.anchor;
                kept.actor = context.actor;
                delete kept.value;
                if (after !== ABSENT) setField(kept, 'value', after);
                if (sent) noteSent(kept);
            }
        }
    }

    /**
     * Record that rows are about to be sent.
     *
     * @param {AwayEntry} entry
     * @param {AwayRow[]} rows
     */
    noteAttempt(entry, rows) {
        for (const row of entry.rows) {
            if (rows.some((one) => one.instanceId === row.instanceId && one.key === row.key)) noteSent(row);
        }
    }

    /**
     * Return true if sending operations again would undo another client's write.
     *
     * @param {any[]} operations
     * @param {(instanceId: string|null, key: string) => any} theirs the server's value, or ABSENT
     */
    wouldUndo(operations, theirs) {
        const rows = rowsOf(this.find());
        return operations.some(({ op, instanceId = null, key }) => {
            const row = overwrites(op) && rows.find((one) => one.instanceId === instanceId && one.key === key);
            return row && !isOurs(row, theirs(instanceId, key));
        });
    }

    /** @param {AwayEntry} entry */
    remove(entry) {
        const kept = this.kept();
        if (!Array.isArray(kept.away)) return;
        kept.away = kept.away.filter((one) => one !== entry);
        if (kept.away.length === 0) delete kept.away;
    }
}

/**
 * @param {AwayRow} row
 * @param {'value'|'base'} name
 * @param {any} value
 */
function setField(row, name, value) {
    const exact = (row.exact ?? []).filter((one) => one !== name);
    const asText = holdsBigInt(value);
    row[name] = asText ? exactText(value) : plainJson(value);
    if (asText) exact.push(name);
    if (exact.length) row.exact = exact;
    else delete row.exact;
}

/** @param {AwayRow} row */
function noteSent(row) {
    row.sent = [...new Set([...(row.sent ?? []), ...(row.ground ? [row.ground.text] : []), textOf(row)])];
}

/**
 * @param {AwayRow} row as kept in the metadata
 * @returns {string|null} its value as JSON text; null: removed
 */
function textOf(row) {
    if (!('value' in row)) return null;
    return row.exact?.includes('value') ? row.value : exactText(row.value);
}

/**
 * Return the `ground` of anchored rows as rows without an anchor. They are written first.
 *
 * @param {AwayRow[]} rows
 * @returns {AwayRow[]}
 */
export function unanchoredRowsBelow(rows) {
    return rows.flatMap(({ instanceId, key, known, ground }) => (ground ? [{
        instanceId, key, known, anchor: null, actor: ground.actor, ...(ground.text === null ? {} : { value: parseExact(ground.text) }),
    }] : []));
}

/**
 * Return true if no other client has changed the value: the server has `base`, or a value that we sent.
 *
 * @param {AwayRow} row
 * @param {any} there the server's value, or ABSENT
 */
function isOurs(row, there) {
    const base = 'base' in row ? row.base : ABSENT;
    if (row.known ? equalJson(there, base) : there === ABSENT) return true;
    return (row.sent ?? []).some((text) => equalJson(there, text === null ? ABSENT : parseExact(text)));
}

/**
 * Return the rows of an entry with JSON text parsed.
 *
 * @param {AwayEntry|undefined} entry
 * @returns {AwayRow[]}
 */
export function rowsOf(entry) {
    return (entry?.rows ?? []).map(({ exact = [], ...row }) => {
        for (const name of exact) if (name in row) row[name] = parseExact(row[name]);
        return row;
    });
}

/**
 * Split an entry into rows to write and rows that another client has changed since.
 *
 * @param {AwayEntry} entry
 * @param {(instanceId: string|null, key: string) => any} theirs the server's value, or ABSENT
 */
export function splitByConflict(entry, theirs) {
    /** @type {AwayRow[]} */
    const write = [];
    /** @type {Array<AwayRow & {theirs: any}>} */
    const conflicts = [];
    for (const row of rowsOf(entry)) {
        const there = theirs(row.instanceId, row.key);
        const mine = 'value' in row ? row.value : ABSENT;
        if (equalJson(there, mine)) continue;
        if (isOurs(row, there)) write.push(row);
        else conflicts.push({ ...row, theirs: there });
    }
    return { write, conflicts };
}
