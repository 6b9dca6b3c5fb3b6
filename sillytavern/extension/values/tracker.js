/**
 * The connection of this page: the open chat, who bears values in it, and how they are written.
 *
 * Everything else in this folder asks here. While there is no connection or no chat, there is
 * simply nothing to see.
 */

import { ValueTracker, sum } from '../client/valuetracker.js';
import { say } from '../strings.js';
import { hasRoom, locate } from './paths.js';

/** The values that macros, commands, the model and the player set are this extension's. */
export const EXTENSION_ID = 'valuetracker-panel';

/** A person's edit belongs to no message, so no swipe takes it back. */
export const PERSON = Object.freeze({ actor: 'user', anchor: null });

/** @typedef {import('./paths.js').Bearer} Bearer */

export class Tracker {
    /** @type {any} */
    vt = null;
    /** How many writes are under way that were told to belong to a message. */
    anchoring = 0;
    /** Why there is no connection. @type {Error|null} */
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
            this.tell('status', 'closed');
            return;
        }
        for (const name of ['chat', 'change', 'reconciled', 'conflict', 'status', 'moved', 'stale', 'error', 'saved']) {
            this.vt.on(name, (/** @type {any} */ argument) => this.tell(name, argument));
        }
        this.tell('status', this.status);
        this.tell('chat', this.chat);
    }

    /**
     * The client's events; also before there is a connection.
     *
     * @param {string} name
     * @param {(argument: any) => void} listener
     */
    on(name, listener) {
        if (!this.#listeners.has(name)) this.#listeners.set(name, new Set());
        this.#listeners.get(name)?.add(listener);
    }

    /**
     * @param {string} name one of the client's, or `checkpoints`: they are others now
     * @param {any} [argument]
     */
    tell(name, argument) {
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
     * The chat, and its instances.
     *
     * @returns {Bearer[]}
     */
    get bearers() {
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
     * Sets what a path names; undefined removes.
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
     * Adds to the number that a path names.
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
        const { bearer, keys } = locate([...this.bearers, ...this.#newcomers], path);
        if (bearer.id === null) return { chat, row: chat, keys };
        return { chat, row: bearer.id === '' ? await this.instanceOf(bearer.names[0]) : chat.instance(bearer.id), keys };
    }

    /** Who is in the chat and bears no values yet. @returns {Bearer[]} */
    get #newcomers() {
        const known = new Set(this.chat?.instances.map((/** @type {any} */ { characterId }) => characterId));
        return charactersHere().filter(({ avatar }) => !known.has(avatar)).map(({ name }) => ({ id: '', names: [name], data: {} }));
    }

    /**
     * What a value of the open chat is called in macros. A name that means another value is passed over.
     *
     * @param {string|null} instanceId
     * @param {string} key
     * @returns {string}
     */
    reference(instanceId, key) {
        if (instanceId === null) return key;
        const { bearers } = this;
        const bearer = bearers.find((one) => one.id === instanceId);
        const names = bearer?.names ?? [instanceId];
        const clear = names.find((name) => locate(bearers, `${name}.${key}`).bearer.id === instanceId);
        return `${clear ?? names[0]}.${key}`;
    }

    /**
     * The instance of that name; it is made if there is none.
     *
     * @param {string} name
     */
    async instanceOf(name) {
        const bearer = this.bearers.find((one) => one.id !== null
            && one.names.some((known) => known.toLowerCase() === name.toLowerCase()));
        if (bearer) return this.chat.instance(bearer.id);
        const character = charactersHere().find((one) => one.name.toLowerCase() === name.toLowerCase());
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
        if (!hasRoom(inside, last)) throw new TypeError(say('noRoom', { key: keys.slice(0, -1).join('.'), index: last, count: inside.length }));
        if (value === undefined) delete inside[last];
        else inside[last] = value;
    }, options);
}

/**
 * A checkpoint as of a message, which remembers the swipe that is visible.
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
 * What a character is called.
 *
 * @param {string} characterId in SillyTavern, the file of its avatar
 * @returns {string}
 */
export function characterName(characterId) {
    const { characters } = SillyTavern.getContext();
    return characters.find((/** @type {any} */ one) => one.avatar === characterId)?.name ?? characterId;
}

/**
 * Who takes part in the open chat.
 *
 * @returns {Array<{name: string, avatar: string}>}
 */
export function charactersHere() {
    const { characters, characterId, groups, groupId } = SillyTavern.getContext();
    const members = groupId ? groups.find((/** @type {any} */ one) => one.id === groupId)?.members ?? [] : [];
    const here = groupId
        ? characters.filter((/** @type {any} */ one) => members.includes(one.avatar))
        : [characters[characterId]].filter(Boolean);
    return here.map((/** @type {any} */ { name, avatar }) => ({ name, avatar }));
}
