/**
 * Checkpoints and branches of a chat.
 */

import { newId } from '../state/json.js';
import { path } from '../sync/transport.js';
import { shared } from '../tavern/ids.js';

/** @typedef {import('../sync/session.js').Session} Session */
/**
 * What the caller finds: the current version of each series, and anything that `expect` names.
 *
 * @typedef {{series?: Record<string, number|null>, lorebook?: string, messageCount?: number, [name: string]: any}} Actual
 */
/** @typedef {{success: boolean, validated: boolean, errors: string[], warnings: string[]}} Validation */
/** @typedef {{instanceId: string|null, key: string, space?: string, before?: any, after?: any}} ChangedValue */
/** @typedef {{key: string, instanceId?: string|null, fields?: string[]}} Captured */
/**
 * @typedef {object} CheckpointState
 * @property {Record<string, any>} data
 * @property {Array<{instance: any, data: Record<string, any>}>} instances
 * @property {Record<string, {currentVersion: number|null, versions: any[]}>} series
 * @property {Record<string, string[]>} processed
 */

/** Named revisions of a chat, to return to. */
export class Checkpoints {
    #session;

    /** @param {Session} session */
    constructor(session) {
        this.#session = session;
    }

    /**
     * Create a checkpoint of the current state, or of the state as of a message. `capture` records size, digest and
     * chosen fields of keys.
     *
     * @param {{name?: string, message?: number, messageId?: string, expect?: any, meta?: any, lorebook?: any, whenReady?: boolean, capture?: Captured[]}} [about]
     * @returns {Promise<any>}
     */
    async create({ message, ...about } = {}) {
        const messageId = message === undefined ? about.messageId : this.#session.anchorOf(message).messageId;
        const created = await this.#session.write('POST', '/checkpoints', { ...about, messageId }, { anchor: null });
        this.#tell();
        return created;
    }

    /** Tell this page and the other tabs that the list has changed. The feed also tells others. */
    #tell() {
        const { owner } = this.#session;
        owner.emit('checkpoints', undefined);
        owner.notifyTabs({ told: 'checkpoint' });
    }

    /** @returns {Promise<any[]>} */
    list() {
        return this.#session.read('/checkpoints');
    }

    /**
     * @param {string} name
     * @returns {Promise<any>}
     */
    get(name) {
        return this.#session.read(path('checkpoints', name));
    }

    /**
     * Read everything that the chat held at the checkpoint.
     *
     * @param {string} name
     * @returns {Promise<CheckpointState>}
     */
    state(name) {
        return this.#session.read(`${path('checkpoints', name)}/state`);
    }

    /**
     * @param {string} name
     * @returns {Promise<{success: boolean}>}
     */
    async remove(name) {
        const removed = await this.#session.write('DELETE', path('checkpoints', name), undefined, { anchor: null });
        this.#tell();
        return removed;
    }

    /**
     * List the values that differ between the checkpoint and now.
     *
     * @param {string} name
     * @returns {Promise<Array<{key: string, before?: any, after?: any, instanceId?: string|null, space?: string}>>}
     */
    diff(name) {
        return this.#session.read(`${path('checkpoints', name)}/diff`);
    }

    /**
     * Compare the checkpoint with the log, and with what the caller finds.
     *
     * @param {string} name
     * @param {Actual} [actual]
     * @returns {Promise<Validation>}
     */
    validate(name, actual) {
        const body = actual === undefined ? {} : { actual };
        return this.#session.write('POST', `${path('checkpoints', name)}/validate`, body, { anchor: null });
    }

    /**
     * Restore the checkpoint. One that does not validate is refused (`checkpoint_invalid`) unless `force` is true. A dry
     * run changes nothing, and `changes` lists what would change.
     *
     * @param {string} name
     * @param {{dryRun?: boolean, actual?: Actual, force?: boolean}} [options]
     * @returns {Promise<{success: boolean, errors: string[], warnings: string[], revision: number, changed: number, changes?: ChangedValue[]}>}
     */
    async restore(name, { dryRun = false, actual, force = false } = {}) {
        const body = { dryRun, actual, force };
        const report = await this.#session.write('POST', `${path('checkpoints', name)}/restore`, body, { anchor: null });
        if (!dryRun) await this.#session.readAgain('restore');
        return report;
    }
}

/** Chats that started from this one. */
export class Branches {
    #session;

    /** @param {Session} session */
    constructor(session) {
        this.#session = session;
    }

    /**
     * Create a branch. A checkpoint that does not validate is refused (`checkpoint_invalid`) unless `force` is true.
     *
     * @param {{chatId?: string, message?: number, messageId?: string, checkpoint?: string, revision?: number, actual?: Actual, force?: boolean}} [about]
     * @returns {Promise<{chatId: string, parent: string, parentRevision: number, rows: any, instances: Record<string, string>, errors?: string[], warnings?: string[]}>}
     */
    async create({ chatId = newId(), message, messageId, checkpoint, revision, actual, force } = {}) {
        const from = {
            messageId: message === undefined ? messageId : this.#session.anchorOf(message).messageId, checkpoint, revision,
        };
        const begins = Object.values(from).some((value) => value !== undefined);
        const body = { chatId, from: begins ? from : undefined, actual, force };
        return await this.#session.write('POST', '/branches', body, { anchor: null });
    }

    /**
     * Start the next branch that SillyTavern makes of this chat from a checkpoint, instead of from the current
     * values of its last message. This holds for this extension alone: each extension has its own checkpoints.
     *
     * @param {string} checkpoint
     * @returns {() => void} call it when SillyTavern has made the branch
     */
    beginNextWith(checkpoint) {
        const { id, owner } = this.#session;
        const branching = { parent: id, extensionId: owner.transport.extensionId, checkpoint };
        shared().branching = branching;
        return () => {
            if (shared().branching === branching) shared().branching = null;
        };
    }

    /** @returns {Promise<{chatId: string, ancestors: any[], branches: any[]}|null>} */
    lineage() {
        return this.#session.read('/lineage');
    }
}
