/**
 * What is written while the server is away, kept in the chat's metadata until it is back.
 *
 * Kept are the last values of the keys, not how they came about: where there never is a server, a
 * list of operations would grow for ever. A list of records rather than an object, since keys may be
 * named `__proto__`.
 *
 *     away: [{extensionId, id, rows: [{instanceId, key, value?, base?, known, ground?, sent?, anchor, actor}], instances}]
 *
 * `base` is what the server had when it was last seen, if it was (`known`). `sent` is what we have tried
 * to write there since, without hearing whether it arrived: if the server has that, nobody else has
 * been at it, and what came after may be written. `ground` is what was written to no message before a
 * message wrote: what is left when that message goes.
 */

import { exactText, holdsBigInt, parseExact } from '../state/exact.js';
import { ABSENT, equalJson, newId, overwrites, plainJson } from '../state/json.js';

/** @typedef {import('../state/ledger.js').Entry} Entry */
/**
 * @typedef {object} AwayRow
 * @property {string|null} instanceId
 * @property {string} key
 * @property {any} [value] absent: removed
 * @property {any} [base] absent: there was none
 * @property {boolean} known whether `base` is known
 * @property {Array<string|null>} [sent] as JSON text; null: removed
 * @property {{text: string|null, actor: string}} [ground] as JSON text; null: removed
 * @property {import('../tavern/ids.js').Anchor|null} anchor
 * @property {string} actor
 * @property {Array<'value'|'base'>} [exact] which of them is JSON text: SillyTavern cannot save a BigInt
 */
/** @typedef {{extensionId: string, id: string, rows: AwayRow[], instances: any[]}} AwayEntry */

export class Away {
    /**
     * @param {string} extensionId
     * @param {() => {away?: any[]}} kept what the library keeps with the open chat
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
     * @param {boolean} known whether what the values were before is what the server had
     * @param {(id: string) => any} describe
     * @param {boolean} [sent] whether the server may have got them
     */
    record(entries, known, describe, sent = false) {
        const kept = this.kept();
        if (!Array.isArray(kept.away)) kept.away = [];
        let entry = this.find();
        if (!entry) kept.away.push(entry = { extensionId: this.extensionId, id: '', rows: [], instances: [] });
        // Another content is another request.
        entry.id = newId();
        for (const { row, key, before, after, place } of entries) {
            const { instanceId } = row;
            if (instanceId !== null && !entry.instances.some((instance) => instance.id === instanceId)) {
                entry.instances.push(describe(instanceId));
            }
            for (const [name, old] of key === null ? before : [[key, before]]) {
                let kept = entry.rows.find((one) => one.instanceId === instanceId && one.key === name);
                if (kept && place.anchor === null) delete kept.ground;
                else if (kept && kept.anchor === null) kept.ground = { text: textOf(kept), actor: kept.actor };
                if (!kept) {
                    kept = { instanceId, key: name, known, anchor: null, actor: 'extension' };
                    if (known && old !== ABSENT) put(kept, 'base', old);
                    entry.rows.push(kept);
                }
                kept.anchor = place.anchor;
                kept.actor = place.actor;
                delete kept.value;
                if (after !== ABSENT) put(kept, 'value', after);
                if (sent) noteSent(kept);
            }
        }
    }

    /**
     * These rows are about to be sent.
     *
     * @param {AwayEntry} entry
     * @param {AwayRow[]} rows
     */
    trying(entry, rows) {
        for (const row of entry.rows) {
            if (rows.some((one) => one.instanceId === row.instanceId && one.key === row.key)) noteSent(row);
        }
    }

    /**
     * Whether sending operations once more would undo what somebody else has written since.
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
function put(row, name, value) {
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
 * @param {AwayRow} row as it is kept
 * @returns {string|null} its value as JSON; null: removed
 */
function textOf(row) {
    if (!('value' in row)) return null;
    return row.exact?.includes('value') ? row.value : exactText(row.value);
}

/**
 * What lies below rows that messages wrote, as rows of their own: to be written before them.
 *
 * @param {AwayRow[]} rows
 * @returns {AwayRow[]}
 */
export function groundsOf(rows) {
    return rows.flatMap(({ instanceId, key, known, ground }) => (ground ? [{
        instanceId, key, known, anchor: null, actor: ground.actor, ...(ground.text === null ? {} : { value: parseExact(ground.text) }),
    }] : []));
}

/**
 * Whether what the server has is what it had, or our own doing.
 *
 * @param {AwayRow} row
 * @param {any} there a value or ABSENT
 */
function isOurs(row, there) {
    const base = 'base' in row ? row.base : ABSENT;
    if (row.known ? equalJson(there, base) : there === ABSENT) return true;
    return (row.sent ?? []).some((text) => equalJson(there, text === null ? ABSENT : parseExact(text)));
}

/**
 * The rows of an entry, with their values as they were written.
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
 * What of an entry is to be written, and what is not since the server has gone on.
 *
 * @param {AwayEntry} entry
 * @param {(instanceId: string|null, key: string) => any} theirs the server's value, or ABSENT
 */
export function settle(entry, theirs) {
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
