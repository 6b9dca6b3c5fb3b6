/**
 * The values of a chat, or of one of its instances.
 *
 * A session is handed in; this module does not know how it saves.
 */

import { ABSENT } from './json.js';
import { Live } from './live.js';

/** @typedef {import('../tavern/ids.js').Anchor} Anchor */
/**
 * The message a write is anchored to, and who makes it.
 *
 * @typedef {object} WriteOptions
 * @property {number|Anchor|null} [anchor] a message by its index or its ids; null: no anchor
 * @property {'extension'|'user'} [actor]
 * @property {boolean} [critical] true: sent at the end of this tick, without waiting for more writes
 */

export class Values {
    /** @type {import('../sync/session.js').Session} */
    #session;
    /** @type {string|null} */
    instanceId;

    /**
     * @param {import('../sync/session.js').Session} session
     * @param {string|null} instanceId
     * @param {Record<string, any>} data
     */
    constructor(session, instanceId, data) {
        this.#session = session;
        this.instanceId = instanceId;
        /** For the library itself: the values without the check that the chat is still open. */
        this.live = new Live(data, {
            onRead: () => session.mayRead(),
            onWrite: (key, assigned) => session.saver.noteWrite(this, key, assigned),
        });
        // Hidden from code that lists the properties.
        Object.defineProperty(this, 'live', { enumerable: false });
    }

    /** The live values: every write to them is saved. */
    get state() {
        this.#session.mayRead();
        return this.live.state;
    }

    /**
     * @param {string} key
     * @param {any} value
     * @param {WriteOptions} [options]
     * @returns {Promise<{value: any}>}
     */
    set(key, value, options) {
        return this.#session.saver.operate(this, { op: 'set', key, value }, options);
    }

    /**
     * @param {string} key
     * @param {WriteOptions} [options]
     * @returns {Promise<{removed: boolean}>}
     */
    remove(key, options) {
        return this.#session.saver.operate(this, { op: 'remove', key }, options);
    }

    /**
     * Add to a number. An increment is counted again when the story changes; an assigned value is not.
     *
     * @param {string} key
     * @param {number} [by]
     * @param {WriteOptions} [options]
     * @returns {Promise<{value: number}>}
     */
    increment(key, by = 1, options) {
        if (!Number.isFinite(by)) throw new TypeError(`${by} is not a number to add.`);
        return this.#session.saver.operate(this, { op: 'increment', key, by }, options);
    }

    /**
     * Add a value to the end of a list.
     *
     * @param {string} key
     * @param {any} value
     * @param {WriteOptions} [options]
     * @returns {Promise<{value: any[]}>}
     */
    append(key, value, options) {
        return this.#session.saver.operate(this, { op: 'append', key, value }, options);
    }

    /**
     * Add a value to a list unless the list contains it.
     *
     * @param {string} key
     * @param {any} value
     * @param {WriteOptions} [options]
     * @returns {Promise<{added: boolean}>}
     */
    addToSet(key, value, options) {
        return this.#session.saver.operate(this, { op: 'addToSet', key, value }, options);
    }

    /**
     * Remove a value from a list.
     *
     * @param {string} key
     * @param {any} value
     * @param {WriteOptions} [options]
     * @returns {Promise<{value: any[]}>}
     */
    pull(key, value, options) {
        return this.#session.saver.operate(this, { op: 'pull', key, value }, options);
    }

    /**
     * Merge into an object, recursively; null removes a field.
     *
     * @param {string} key
     * @param {Record<string, any>} value
     * @param {WriteOptions} [options]
     * @returns {Promise<{value: any}>}
     */
    merge(key, value, options) {
        return this.#session.saver.operate(this, { op: 'merge', key, value }, options);
    }

    /**
     * Remove all keys.
     *
     * @param {WriteOptions} [options]
     * @returns {Promise<{removedCount: number}>}
     */
    clear(options) {
        return this.#session.saver.operate(this, { op: 'clear' }, options);
    }
}

/** One tracked occurrence of a character in a chat. */
export class Instance extends Values {
    #about;

    /**
     * @param {import('../sync/session.js').Session} session
     * @param {{id: string, characterId: string, name: string|null}} about
     * @param {Record<string, any>} data
     */
    constructor(session, about, data) {
        super(session, about.id, data);
        this.#about = about;
    }

    get id() {
        return this.#about.id;
    }

    get characterId() {
        return this.#about.characterId;
    }

    get name() {
        return this.#about.name;
    }

    /** @param {{id: string, characterId: string, name: string|null}} about */
    describe(about) {
        this.#about = about;
    }
}

/**
 * Return one value of a state as `open` and `state` answer it.
 *
 * @param {any} state null: there is none
 * @param {string|null} instanceId
 * @param {string} key
 * @returns {any} a value or ABSENT
 */
export function valueIn(state, instanceId, key) {
    const data = instanceId === null ? state?.data
        : state?.instances.find((/** @type {any} */ one) => one.instance.id === instanceId)?.data;
    return data && Object.hasOwn(data, key) ? data[key] : ABSENT;
}
