/**
 * The server's state in the page: what answers, chains and the feed say of it.
 *
 * `seen` is the revision up to which everything in this chat is known here. Our own writes raise it
 * only if nothing can lie between; else the feed does.
 */

import { ABSENT, copyJson, equalJson, overwrites, plainJson } from '../state/json.js';
import { Instance, Values, valueIn } from '../state/values.js';
import { rowsOf } from './away.js';
import { path } from './transport.js';

/** @typedef {import('../state/ledger.js').Entry} Entry */
/** @typedef {{instanceId: string|null, key: string, before?: any, after?: any, space?: string}} Change */

/** What takes a key away; anything else without a value is one too large for the feed. */
const REMOVALS = new Set(['remove', 'clear', 'delete_instance', 'delete_character']);

export class Mirror {
    seen = 0;
    /** Whether somebody else has changed which messages are visible. */
    moved = false;
    /** Revisions that are ours, until the feed has told of them. @type {Set<number>} */
    #own = new Set();
    /**
     * Revisions that are ours if they are about series or processed ids: a write that changed
     * nothing answers the latest.
     *
     * @type {Set<number>}
     */
    #perhaps = new Set();
    /**
     * The revision of our last write to a key, and whether it replaced what was there.
     *
     * @type {Map<string, {revision: number, replaced: boolean}>}
     */
    #written = new Map();
    /** @type {any} what `open` or `state` last said */
    #server = null;

    /** @param {import('./session.js').Session} session */
    constructor(session) {
        this.session = session;
    }

    /** @param {number} revision a revision that is our doing */
    mine(revision) {
        const { session } = this;
        if (revision === this.seen + 1) this.seen = revision;
        else if (revision > this.seen) this.#own.add(revision);
        session.revision = Math.max(session.revision, revision);
        session.owner.tell(revision);
    }

    /** @param {number} revision what a write beside the values answered */
    perhapsMine(revision) {
        if (revision > this.seen) this.#perhaps.add(revision);
        this.session.owner.tell(revision);
    }

    /**
     * All of the state, as `open` and `state` give it.
     *
     * @param {any} body
     * @param {Array<{instanceId: string|null, key: string}>} [except] keys that are ours to keep
     * @returns {Change[]}
     */
    take(body, except = []) {
        const { session } = this;
        this.#server = body;
        session.revision = Math.max(session.revision, body.revision);
        this.seen = Math.max(this.seen, body.revision);
        for (const set of [this.#own, this.#perhaps]) for (const revision of set) if (revision <= this.seen) set.delete(revision);
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
                this.#put(row, key, data && Object.hasOwn(data, key) ? data[key] : ABSENT, changes);
            }
            if (!data) session.rows.delete(id);
        }
        return changes;
    }

    /**
     * What is kept in the page, when the server was never seen.
     *
     * @param {import('./away.js').AwayEntry|undefined} entry
     * @param {Record<string, any>} defaults
     */
    takeKept(entry, defaults) {
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
     * The server's value of a key when all was last read.
     *
     * @param {string|null} instanceId
     * @param {string} key
     * @returns {any} a value or ABSENT
     */
    theirs(instanceId, key) {
        return valueIn(this.#server, instanceId, key);
    }

    /**
     * The answer to a batch of ours.
     *
     * @param {Array<{operation: any, entry: Entry}>} operations
     * @param {{revision: number, results: any[]}} answer
     */
    answered(operations, { revision, results }) {
        const touched = results.some((result) => 'value' in result || result.added || result.removed || result.removedCount);
        if (touched) this.mine(revision);
        /** @type {Change[]} */
        const changes = [];
        operations.forEach(({ operation, entry }, index) => {
            const { row, key } = entry;
            const result = results[index];
            if (key !== null) {
                this.#written.set(`${row.instanceId ?? ''}\n${key}`, { revision, replaced: overwrites(operation.op) });
            }
            const last = operations.findLastIndex((one) => one.entry.row === row && one.entry.key === key);
            if (key !== null && index === last && 'value' in result) {
                this.#put(/** @type {Values} */ (row), key, result.value, changes);
            }
        });
        operations.forEach(({ entry }, index) => entry.resolve?.(results[index]));
        this.#emit('remote', changes);
    }

    /**
     * Reads everything anew.
     *
     * @param {string} source
     * @param {boolean} [afterGap] what was seen before is no measure any more
     */
    async readAgain(source, afterGap = false) {
        const { session } = this;
        const { body } = await session.owner.transport.request('GET', `${session.base}/state`);
        if (afterGap) this.seen = 0;
        if (body && !session.stale) this.#emit(source, this.take(body, []));
    }

    /**
     * An event of the feed.
     *
     * @param {any} event
     */
    async event(event) {
        await this.learn(event);
        if (this.moved) await this.session.story.look();
    }

    /**
     * The same, for one who will look for himself whether this tab has fallen behind.
     *
     * @param {any} event
     */
    async learn(event) {
        const { session } = this;
        // While the server counts as away it may be our own write whose answer was lost; on its return all is read anew.
        if (event.revision <= this.seen || session.stale || session.away) return;
        this.seen = event.revision;
        session.revision = Math.max(session.revision, event.revision);
        if (this.#own.delete(event.revision)) return;
        if (this.#perhaps.delete(event.revision) && event.changes.every((/** @type {any} */ change) => change.space)) return;
        let source = 'remote';
        let again = false;
        // Other messages may be visible elsewhere and no value depend on it: then nobody has fallen behind.
        /** @type {Change[]} */
        const changes = [];
        for (const change of event.changes) {
            if (change.op === 'reconcile') [source, this.moved] = ['story', true];
            if (change.op === 'restore') source = 'restore';
            if (change.anchor && !session.knows(change.anchor.messageId)) this.moved = true;
            if (change.live === false) continue;
            if (change.space) changes.push({ instanceId: null, key: change.key, space: change.space });
            else if (change.key === null) again ||= change.instanceId !== null;
            else await this.#changed(change, event.revision, changes);
        }
        if (again) await this.readAgain(source);
        this.#emit(source, changes);
    }

    /**
     * @param {any} change
     * @param {number} revision
     * @param {Change[]} changes
     */
    async #changed({ instanceId, key, op, ...change }, revision, changes) {
        const { session } = this;
        const row = session.rows.get(instanceId);
        if (!row) return;
        let after = 'after' in change ? change.after : ABSENT;
        if (after === ABSENT && !REMOVALS.has(op)) {
            const of = instanceId === null ? session.base : path('instances', instanceId);
            const { body } = await session.owner.transport.request('GET', `${of}/data${path(key)}`);
            after = Object.hasOwn(body, key) ? body[key] : ABSENT;
        }
        const ours = this.#written.get(`${instanceId ?? ''}\n${key}`);
        const later = ours !== undefined && ours.revision > revision;
        // Something added to theirs is no conflict: the answer to it held both.
        if (later && !ours.replaced) return;
        if (later || session.saver.isPending(row, key)) {
            const mine = row.live.copy(key);
            if (!equalJson(mine, after)) this.conflict(instanceId, key, mine, after, 'mine', revision);
            return;
        }
        this.#put(row, key, after, changes);
    }

    /**
     * What a reconcile has changed.
     *
     * @param {any} report
     */
    reconciled(report) {
        /** @type {Change[]} */
        const changes = [];
        for (const { instanceId, key, space, ...change } of report.changed) {
            const row = this.session.rows.get(instanceId);
            if (space) changes.push({ instanceId: null, key, space });
            else if (row) this.#put(row, key, 'after' in change ? change.after : ABSENT, changes);
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
    conflict(instanceId, key, mine, theirs, kept, revision = this.seen) {
        const { session } = this;
        session.owner.emit('conflict', {
            instanceId, key, kept, revision,
            mine: mine === ABSENT ? undefined : plainJson(mine),
            theirs: theirs === ABSENT ? undefined : plainJson(theirs),
            use: (/** @type {any} */ value, /** @type {import('../state/values.js').WriteOptions} */ options) => {
                const row = session.rows.get(instanceId);
                if (!row) throw new TypeError('The instance is gone.');
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
    #put(row, key, value, changes) {
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
