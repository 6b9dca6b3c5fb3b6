/**
 * Keeps the page's values equal to the server's: it applies answers, reconcile reports and feed events.
 *
 * All changes of this chat up to `knownRevision` have been applied here. A write of our own raises it
 * only if it is the next revision; otherwise the feed does.
 */

import { holdsBigInt } from '../state/exact.js';
import { ABSENT, copyJson, equalJson, overwrites, plainJson } from '../state/json.js';
import { Instance, Values, valueIn } from '../state/values.js';
import { rowsOf } from './away.js';
import { path } from './transport.js';

/** @typedef {import('../state/ledger.js').Entry} Entry */
/** @typedef {{instanceId: string|null, key: string, before?: any, after?: any, space?: string}} Change */

/** Operators that remove a key. Any other event without a value carries one too large for the feed. */
const REMOVALS = new Set(['remove', 'clear', 'delete_instance', 'delete_character']);

/** Operators that set a value; the server answers it only where we cannot know it. */
const SETTING = new Set(['set', 'increment', 'append', 'pull', 'merge', 'patch']);

export class Mirror {
    knownRevision = 0;
    /** The incarnation that `knownRevision` is of. */
    #incarnation = '';
    /** True if another client may have changed which messages are visible. */
    visibilityChanged = false;
    /** Revisions of our own writes whose feed event has not arrived. @type {Set<number>} */
    #own = new Set();
    /**
     * Revisions that are ours if all their changes are of series or processed ids. A write that
     * changes nothing answers with the latest revision, which may be another client's.
     *
     * @type {Set<number>}
     */
    #possiblyOwn = new Set();
    /**
     * For each key the revision of our last write; `replaced` if it overwrote the value.
     *
     * @type {Map<string, {revision: number, replaced: boolean}>}
     */
    #written = new Map();
    /** The last answer of `open` or `state`. @type {any} */
    #lastRead = null;

    /** @param {import('./session.js').Session} session */
    constructor(session) {
        this.session = session;
    }

    /** The known revision as `since` and `If-Match` name it. */
    get cursor() {
        return this.#incarnation ? `${this.knownRevision}.${this.#incarnation}` : this.knownRevision;
    }

    /** @param {number} revision of a write of our own */
    addOwnRevision(revision) {
        const { session } = this;
        if (revision === this.knownRevision + 1) this.knownRevision = revision;
        else if (revision > this.knownRevision) this.#own.add(revision);
        session.revision = Math.max(session.revision, revision);
        session.owner.notifyTabs({ revision });
    }

    /** @param {number} revision that a write of something other than values answered with */
    addPossibleOwnRevision(revision) {
        if (revision > this.knownRevision) this.#possiblyOwn.add(revision);
        this.session.owner.notifyTabs({ revision });
    }

    /**
     * Replace all values with an answer of `open` or `state`.
     *
     * @param {any} body
     * @param {Array<{instanceId: string|null, key: string}>} [except] keys to leave as they are
     * @returns {Change[]}
     */
    replaceAll(body, except = []) {
        const { session } = this;
        this.#lastRead = body;
        this.#incarnation = session.owner.transport.incarnation;
        session.revision = Math.max(session.revision, body.revision);
        this.knownRevision = Math.max(this.knownRevision, body.revision);
        for (const set of [this.#own, this.#possiblyOwn]) for (const revision of set) if (revision <= this.knownRevision) set.delete(revision);
        /** @type {Change[]} */
        const changes = [];
        const listed = new Map([[/** @type {string|null} */ (null), body.data]]);
        for (const { instance, data } of body.instances) {
            listed.set(instance.id, data);
            const known = session.rows.get(instance.id);
            if (known instanceof Instance) known.describe(instance);
            else session.rows.set(instance.id, new Instance(session, instance, {}));
        }
        for (const [id, row] of session.rows) {
            const data = listed.get(id);
            for (const key of new Set([...row.live.keys(), ...Object.keys(data ?? {})])) {
                if (except.some((kept) => kept.instanceId === id && kept.key === key)) continue;
                this.#setLive(row, key, data && Object.hasOwn(data, key) ? data[key] : ABSENT, changes);
            }
            if (!data) session.rows.delete(id);
        }
        return changes;
    }

    /**
     * Load the values kept in the chat, when the server has not answered yet.
     *
     * @param {import('./away.js').AwayEntry|undefined} entry
     * @param {Record<string, any>} defaults
     */
    loadKept(entry, defaults) {
        const { session } = this;
        const own = session.rows.get(null);
        for (const key of Object.keys(defaults)) own?.live.put(key, copyJson(defaults[key]));
        for (const about of entry?.instances ?? []) {
            if (!session.rows.has(about.id)) session.rows.set(about.id, new Instance(session, about, {}));
        }
        for (const row of rowsOf(entry)) {
            session.rows.get(row.instanceId)?.live.put(row.key, 'value' in row ? copyJson(row.value) : ABSENT);
        }
    }

    /**
     * Return the server's value of a key at the last full read.
     *
     * @param {string|null} instanceId
     * @param {string} key
     * @returns {any} a value or ABSENT
     */
    serverValue(instanceId, key) {
        return valueIn(this.#lastRead, instanceId, key);
    }

    /**
     * Apply the answer to a batch of our own.
     *
     * @param {Array<{operation: any, entry: Entry}>} operations
     * @param {{revision: number, results: any[]}} answer
     * @param {boolean} live false if some of it was stored dormant
     */
    async applyAnswer(operations, { revision, results }, live = true) {
        const touched = results.some((result, index) => SETTING.has(operations[index].operation.op)
            || result.superseded || result.added || result.removed || result.removedCount);
        // If nobody else wrote in between, the server has made the same value as we have.
        const alone = live && revision === this.knownRevision + 1;
        if (touched) this.addOwnRevision(revision);
        /** @type {Change[]} */
        const changes = [];
        operations.forEach(({ operation, entry }, index) => {
            const { row, key } = entry;
            const result = results[index];
            if (key !== null) {
                this.#written.set(`${row.instanceId ?? ''}\n${key}`, { revision, replaced: overwrites(operation.op) });
            }
            const last = operations.findLastIndex((one) => one.entry.row === row && one.entry.key === key);
            // Without a value, a change that was superseded left the key absent.
            if (key !== null && index === last && ('value' in result || result.superseded)) {
                this.#setLive(/** @type {Values} */ (row), key, 'value' in result ? result.value : ABSENT, changes);
            }
        });
        for (const [index, { operation, entry }] of operations.entries()) {
            const { row, key } = entry;
            if (key === null || !SETTING.has(operation.op) || 'value' in results[index] || results[index].superseded) continue;
            // Integers beyond 2^53 are what the server's answer makes of them.
            if ((alone || (live && overwrites(operation.op))) && !holdsBigInt(entry.after)) {
                if (entry.after !== ABSENT) results[index].value = plainJson(entry.after);
                continue;
            }
            // The write is done: if the value cannot be read now, the feed brings it.
            const value = await this.#read(row.instanceId, key).catch(() => ABSENT);
            if (value === ABSENT) continue;
            results[index].value = plainJson(value);
            this.#setLive(/** @type {Values} */ (row), key, value, changes);
        }
        operations.forEach(({ entry }, index) => entry.resolve?.(results[index]));
        this.#emit('remote', changes);
    }

    /**
     * Read the value of one key.
     *
     * @param {string|null} instanceId
     * @param {string} key
     * @returns {Promise<any>} a value or ABSENT
     */
    async #read(instanceId, key) {
        const { session } = this;
        const of = instanceId === null ? session.base : path('instances', instanceId);
        const { body } = await session.owner.transport.request('GET', `${of}/data${path(key)}`);
        return Object.hasOwn(body, key) ? body[key] : ABSENT;
    }

    /**
     * Read the whole state again.
     *
     * @param {string} source
     * @param {boolean} [afterGap] true if the feed has missed events: the known revision no longer counts
     */
    async readAgain(source, afterGap = false) {
        const { session } = this;
        const { body } = await session.owner.transport.request('GET', `${session.base}/state`);
        if (afterGap) this.knownRevision = 0;
        if (body && !session.stale) this.#emit(source, this.replaceAll(body, []));
    }

    /**
     * Apply an event of the feed, then check if this tab is behind another one.
     *
     * @param {any} event
     */
    async applyFeedEvent(event) {
        await this.applyEvent(event);
        if (this.visibilityChanged) await this.session.story.checkBehind();
    }

    /**
     * Apply an event of the feed, for callers that check by themselves if this tab is behind.
     *
     * @param {any} event
     */
    async applyEvent(event) {
        const { session } = this;
        // While the server counts as away, the event may be our own write whose answer was lost. Everything is
        // read again when the server is back.
        if (event.revision <= this.knownRevision || session.stale || session.away) return;
        this.knownRevision = event.revision;
        session.revision = Math.max(session.revision, event.revision);
        if (this.#own.delete(event.revision)) return;
        if (this.#possiblyOwn.delete(event.revision) && event.changes.every((/** @type {any} */ change) => change.space)) return;
        let source = 'remote';
        let again = false;
        /** @type {Change[]} */
        const changes = [];
        for (const change of event.changes) {
            // Only a hint: other messages may be visible there without any value depending on them.
            if (change.op === 'reconcile') [source, this.visibilityChanged] = ['story', true];
            if (change.op === 'restore') source = 'restore';
            if (change.anchor && !session.knows(change.anchor.messageId)) this.visibilityChanged = true;
            if (change.live === false || change.superseded) continue;
            if (change.space) changes.push({ instanceId: null, key: change.key, space: change.space });
            else if (change.key === null) again ||= change.instanceId !== null;
            else await this.#applyChange(change, event.revision, changes);
        }
        if (again) await this.readAgain(source);
        this.#emit(source, changes);
    }

    /**
     * @param {any} change
     * @param {number} revision
     * @param {Change[]} changes
     */
    async #applyChange({ instanceId, key, op, ...change }, revision, changes) {
        const { session } = this;
        const row = session.rows.get(instanceId);
        if (!row) return;
        let after = 'after' in change ? change.after : ABSENT;
        if (after === ABSENT && !REMOVALS.has(op)) after = await this.#read(instanceId, key);
        const ours = this.#written.get(`${instanceId ?? ''}\n${key}`);
        const later = ours !== undefined && ours.revision > revision;
        // An operation that adds to their value is no conflict: its answer contained both.
        if (later && !ours.replaced) return;
        if (later || session.saver.isPending(row, key)) {
            const mine = row.live.copy(key);
            if (!equalJson(mine, after)) this.conflict(instanceId, key, mine, after, 'mine', revision);
            return;
        }
        this.#setLive(row, key, after, changes);
    }

    /**
     * Apply the changes in a reconcile report.
     *
     * @param {any} report
     */
    applyReport(report) {
        /** @type {Change[]} */
        const changes = [];
        for (const { instanceId, key, space, ...change } of report.changed) {
            const row = this.session.rows.get(instanceId);
            if (space) changes.push({ instanceId: null, key, space });
            else if (row) this.#setLive(row, key, 'after' in change ? change.after : ABSENT, changes);
        }
        this.#emit('story', changes);
    }

    /**
     * @param {string|null} instanceId
     * @param {string} key
     * @param {any} mine
     * @param {any} theirs
     * @param {'mine'|'theirs'} kept
     * @param {number} [revision]
     */
    conflict(instanceId, key, mine, theirs, kept, revision = this.knownRevision) {
        const { session } = this;
        session.owner.emit('conflict', {
            instanceId, key, kept, revision,
            mine: mine === ABSENT ? undefined : plainJson(mine),
            theirs: theirs === ABSENT ? undefined : plainJson(theirs),
            use: (/** @type {any} */ value, /** @type {import('../state/values.js').WriteOptions} */ options) => {
                const row = session.rows.get(instanceId);
                if (!row) throw new TypeError('The instance was deleted.');
                return value === undefined ? row.remove(key, options) : row.set(key, value, options);
            },
        });
    }

    /**
     * @param {Values} row
     * @param {string} key
     * @param {any} value a value or ABSENT
     * @param {Change[]} changes
     */
    #setLive(row, key, value, changes) {
        if (this.session.saver.isPending(row, key)) return;
        const before = row.live.copy(key);
        if (equalJson(before, value)) return;
        row.live.put(key, value);
        changes.push({
            instanceId: row.instanceId, key,
            ...(before === ABSENT ? {} : { before }), ...(value === ABSENT ? {} : { after: plainJson(value) }),
        });
    }

    /**
     * @param {string} source
     * @param {Change[]} changes
     */
    #emit(source, changes) {
        if (changes.length) this.session.owner.emit('change', { source, changes, revision: this.session.revision });
    }
}
