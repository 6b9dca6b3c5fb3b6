/**
 * Checkpoints and branches of a chat.
 */

import { newId } from '../state/json.js';
import { path } from '../sync/transport.js';
import { shared } from '../tavern/ids.js';

/** @typedef {import('../sync/session.js').Session} Session */

/** Named revisions of a chat, to return to. */
export class Checkpoints {
    #session;

    /** @param {Session} session */
    constructor(session) {
        this.#session = session;
    }

    /**
     * Create a checkpoint of the current state, or of the state as of a message.
     *
     * @param {{name?: string, message?: number, messageId?: string, expect?: any, meta?: any, lorebook?: any, whenReady?: boolean}} [about]
     * @returns {Promise<any>}
     */
    async create({ message, ...about } = {}) {
        const messageId = message === undefined ? about.messageId : this.#session.anchorOf(message).messageId;
        return await this.#session.write('POST', '/checkpoints', { ...about, messageId }, { anchor: null });
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
     * @param {string} name
     * @returns {Promise<{success: boolean}>}
     */
    remove(name) {
        return this.#session.write('DELETE', path('checkpoints', name), undefined, { anchor: null });
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
     * @param {string} name
     * @param {any} [actual]
     * @returns {Promise<{success: boolean, validated: boolean, errors: string[], warnings: string[]}>}
     */
    validate(name, actual) {
        const body = actual === undefined ? {} : { actual };
        return this.#session.write('POST', `${path('checkpoints', name)}/validate`, body, { anchor: null });
    }

    /**
     * @param {string} name
     * @param {{dryRun?: boolean}} [options]
     * @returns {Promise<{success: boolean, errors: string[], warnings: string[], revision: number, changed: number}>}
     */
    async restore(name, { dryRun = false } = {}) {
        const report = await this.#session.write('POST', `${path('checkpoints', name)}/restore`, { dryRun }, { anchor: null });
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
     * @param {{chatId?: string, message?: number, messageId?: string, checkpoint?: string, revision?: number}} [about]
     * @returns {Promise<{chatId: string, parent: string, parentRevision: number, rows: any, instances: Record<string, string>}>}
     */
    async create({ chatId = newId(), message, messageId, checkpoint, revision } = {}) {
        const from = {
            messageId: message === undefined ? messageId : this.#session.anchorOf(message).messageId, checkpoint, revision,
        };
        const body = Object.values(from).some((value) => value !== undefined) ? { chatId, from } : { chatId };
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
