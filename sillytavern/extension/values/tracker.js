/**
 * The connection of this page: the open chat, who has values in it, and how they are written.
 *
 * The panel, the macros and the commands use the server through this class. Without a connection or
 * an open chat there are no values, and no errors.
 */

import { ValueTracker, sum } from '../client/valuetracker.js';
import { say } from '../strings.js';
import { canSetField, locate } from './paths.js';

/** Values set by macros, commands, the model and the player belong to this extension. */
export const EXTENSION_ID = 'valuetracker-panel';

/** A player's edit has no anchor, so no swipe undoes it. */
export const BY_PLAYER = Object.freeze({ actor: 'user', anchor: null });

/** @typedef {import('./paths.js').Owner} Owner */

export class Tracker {
    /** @type {any} */
    vt = null;
    /** The number of running writes with an explicit anchor. */
    anchoring = 0;
    /** The error that prevents a connection. @type {Error|null} */
    problem = null;
    /** @type {Map<string, Set<(argument: any) => void>>} */
    #listeners = new Map();

    /** @returns {Promise<void>} */
    async connect() {
        try {
            this.vt = await ValueTracker.connect({ extensionId: EXTENSION_ID, exactIntegers: true });
        } catch (error) {
            this.problem = /** @type {Error} */ (error);
            console.warn('[ValueTracker]', error);
            this.emit('status', 'closed');
            return;
        }
        for (const name of ['chat', 'change', 'reconciled', 'conflict', 'status', 'moved', 'stale', 'error', 'saved']) {
            this.vt.on(name, (/** @type {any} */ argument) => this.emit(name, argument));
        }
        this.emit('status', this.status);
        this.emit('chat', this.chat);
    }

    /**
     * Listen to the client's events. Listeners may be added before there is a connection.
     *
     * @param {string} name
     * @param {(argument: any) => void} listener
     */
    on(name, listener) {
        if (!this.#listeners.has(name)) this.#listeners.set(name, new Set());
        this.#listeners.get(name)?.add(listener);
    }

    /**
     * @param {string} name an event of the client, or `checkpoints` when their list has changed
     * @param {any} [argument]
     */
    emit(name, argument) {
        for (const listener of this.#listeners.get(name) ?? []) {
            try {
                listener(argument);
            } catch (error) {
                console.error('[ValueTracker]', error);
            }
        }
    }

    /** @returns {'connecting'|'online'|'away'|'closed'} */
    get status() {
        if (this.problem) return 'closed';
        return this.vt?.status ?? 'connecting';
    }

    /** The open chat, or null. @returns {any} */
    get chat() {
        return this.vt?.hasChat ? this.vt.chat : null;
    }

    /**
     * Return the chat and its instances.
     *
     * @returns {Owner[]}
     */
    get owners() {
        const { chat } = this;
        if (!chat) return [];
        return [
            { id: null, names: [], data: chat.state },
            ...chat.instances.map((/** @type {any} */ one) => ({
                id: one.id, names: namesOf(one.id, one.name, one.characterId), data: one.state,
            })),
        ];
    }

    /**
     * Set the value at a path; undefined removes it.
     *
     * @param {string} path
     * @param {any} value
     * @param {any} [options] anchor and actor
     */
    async set(path, value, options) {
        const { chat, row, keys } = await this.#at(path);
        await this.#following(options, () => written(chat, row, keys, value, options));
    }

    /**
     * Add to the number at a path.
     *
     * @param {string} path
     * @param {number} by
     * @param {any} [options]
     * @returns {Promise<number|bigint>}
     */
    async increment(path, by, options) {
        const { chat, row, keys } = await this.#at(path);
        return await this.#following(options, async () => {
            if (keys.length === 1) return (await row.increment(keys[0], by, options)).value;
            const before = keys.reduce((value, key) => value?.[key], row.state);
            if (!['number', 'bigint', 'undefined'].includes(typeof before)) throw new TypeError(say('notCountable', { key: path }));
            const after = sum(before ?? 0, by);
            await written(chat, row, keys, after, options);
            return after;
        });
    }

    /**
     * @template T
     * @param {any} options
     * @param {() => Promise<T>} write
     * @returns {Promise<T>}
     */
    async #following(options, write) {
        const follows = options?.anchor !== null && options?.anchor !== undefined;
        if (follows) this.anchoring += 1;
        try {
            return await write();
        } finally {
            if (follows) this.anchoring -= 1;
        }
    }

    /** @param {string} path */
    async #at(path) {
        const chat = this.vt.chat;
        const { owner, keys } = locate([...this.owners, ...this.#withoutValues], path);
        if (owner.id === null) return { chat, row: chat, keys };
        return { chat, row: owner.id === '' ? await this.instanceOf(owner.names[0]) : chat.instance(owner.id), keys };
    }

    /** Characters of the chat that have no values yet. @returns {Owner[]} */
    get #withoutValues() {
        const known = new Set(this.chat?.instances.map((/** @type {any} */ { characterId }) => characterId));
        return charactersInChat().filter(({ avatar }) => !known.has(avatar)).map(({ name }) => ({ id: '', names: [name], data: {} }));
    }

    /**
     * Return the name of a value in macros. A name that would mean another value is skipped.
     *
     * @param {string|null} instanceId
     * @param {string} key
     * @returns {string}
     */
    reference(instanceId, key) {
        if (instanceId === null) return key;
        const { owners } = this;
        const owner = owners.find((one) => one.id === instanceId);
        const names = owner?.names ?? [instanceId];
        const clear = names.find((name) => locate(owners, `${name}.${key}`).owner.id === instanceId);
        return `${clear ?? names[0]}.${key}`;
    }

    /**
     * Return the instance of a name; create it if there is none.
     *
     * @param {string} name
     */
    async instanceOf(name) {
        const owner = this.owners.find((one) => one.id !== null
            && one.names.some((known) => known.toLowerCase() === name.toLowerCase()));
        if (owner) return this.chat.instance(owner.id);
        const character = charactersInChat().find((one) => one.name.toLowerCase() === name.toLowerCase());
        return await this.vt.chat.addInstance({ characterId: character?.avatar ?? name, name: character?.name ?? name });
    }
}

/**
 * @param {any} chat
 * @param {any} row
 * @param {string[]} keys
 * @param {any} value
 * @param {any} options
 */
async function written(chat, row, keys, value, options) {
    if (keys.length === 1) {
        await (value === undefined ? row.remove(keys[0], options) : row.set(keys[0], value, options));
        return;
    }
    await chat.batch(() => {
        const inside = keys.slice(0, -1).reduce((at, key) => at[key], row.state);
        const last = /** @type {string} */ (keys.at(-1));
        if (!canSetField(inside, last)) throw new TypeError(say('noSuchIndex', { key: keys.slice(0, -1).join('.'), index: last, count: inside.length }));
        if (value === undefined) delete inside[last];
        else inside[last] = value;
    }, options);
}

/**
 * Create a checkpoint as of a message; it records the visible swipe.
 *
 * @param {any} chat
 * @param {number} message
 * @param {string} name
 * @returns {Promise<{name: string}>}
 */
export async function createCheckpoint(chat, message, name) {
    return await chat.checkpoints.create({ name: name || undefined, message, meta: { swipe: chat.swipeId(message) } });
}

/**
 * @param {string} id
 * @param {string|null} name
 * @param {string} characterId
 * @returns {string[]}
 */
function namesOf(id, name, characterId) {
    const names = [name, characterName(characterId), id, characterId];
    return /** @type {string[]} */ ([...new Set(names.filter(Boolean))]);
}

/**
 * Return the name of a character.
 *
 * @param {string} characterId in SillyTavern, the file of its avatar
 * @returns {string}
 */
export function characterName(characterId) {
    const { characters } = SillyTavern.getContext();
    return characters.find((/** @type {any} */ one) => one.avatar === characterId)?.name ?? characterId;
}

/**
 * Return the characters of the open chat.
 *
 * @returns {Array<{name: string, avatar: string}>}
 */
export function charactersInChat() {
    const { characters, characterId, groups, groupId } = SillyTavern.getContext();
    const members = groupId ? groups.find((/** @type {any} */ one) => one.id === groupId)?.members ?? [] : [];
    const here = groupId
        ? characters.filter((/** @type {any} */ one) => members.includes(one.avatar))
        : [characters[characterId]].filter(Boolean);
    return here.map((/** @type {any} */ { name, avatar }) => ({ name, avatar }));
}
