/**
 * The connection of this page: the open chat, who has values in it, and how they are written.
 *
 * The panel, the macros and the commands use the server through this class. Without a connection or
 * an open chat there are no values, and no errors.
 */

import { ValueTracker, sum } from '../client/valuetracker.js';
import { say } from '../strings.js';
import { canSetField, locate } from './paths.js';
import { isSame, namesOf, people, persona, personName } from './people.js';

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
    /** The names of all instances so far: one that was removed still has its name. @type {Map<string, string>} */
    #seen = new Map();
    /** Instances that are being created, by their characters. @type {Map<string, Promise<any>>} */
    #adding = new Map();

    /** @returns {Promise<void>} */
    async connect() {
        this.problem = null;
        try {
            // Every write here is awaited, so none waits for others.
            this.vt = await ValueTracker.connect({ extensionId: EXTENSION_ID, exactIntegers: true, saveMs: [0, 0] });
        } catch (error) {
            this.problem = /** @type {Error} */ (error);
            console.warn('[ValueTracker]', error);
            this.emit('status', 'closed');
            return;
        }
        for (const name of ['chat', 'change', 'reconciled', 'conflict', 'status', 'moved', 'stale', 'error', 'saved', 'checkpoints', 'operations']) {
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
     * @param {string} name an event of the client, or `step`, `savepoint`, `pending`, `waiting`, `removed`, `synced` of this extension
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

    /** Try now if the server is there. */
    async retry() {
        if (this.vt) await this.vt.retry();
        else await this.connect();
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
        const present = people();
        const names = namesOf(chat.instances);
        for (const [id, name] of names) this.#seen.set(id, name);
        const rank = (/** @type {any} */ { characterId }) => (present.findIndex(({ id }) => id === characterId) + 1) || Infinity;
        const instances = [...chat.instances].sort((one, other) => rank(one) - rank(other) || 0);
        return [
            { id: null, names: [], data: chat.state },
            ...instances.map((/** @type {any} */ { id, characterId, state }) => {
                const person = present.find((one) => one.id === characterId);
                const known = [names.get(id), personName(characterId), ...person?.aliases ?? [], characterId, id];
                return { id, names: /** @type {string[]} */ ([...new Set(known)]), data: state };
            }),
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
        const { chat, row, keys, owner } = await this.#at(path);
        return await this.#following(options, async () => {
            if (keys.length === 1) return (await row.increment(keys[0], by, options)).value;
            const before = keys.reduce((value, key) => value?.[key], row.state);
            if (!['number', 'bigint', 'undefined'].includes(typeof before)) throw new TypeError(say('notCountable', { key: this.reference(owner.id === null ? null : row.id, keys.join('.')) }));
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
        if (owner.id === null) return { chat, row: chat, keys, owner };
        return { chat, row: owner.id === '' ? await this.instanceOf(owner.names[0]) : chat.instance(owner.id), keys, owner };
    }

    /** People of the chat that have no values yet. @returns {Owner[]} */
    get #withoutValues() {
        const known = new Set(this.chat?.instances.map((/** @type {any} */ { characterId }) => characterId));
        return people().filter(({ id }) => !known.has(id)).map(({ name, aliases }) => ({ id: '', names: [name, ...aliases], data: {} }));
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
        if (!owner) return `${this.holderName(instanceId)}.${key}`;
        // An id says nothing to a player, unless it is a name as well.
        const names = owner.names.filter((name) => name !== instanceId || name === owner.names[0]);
        const clear = names.find((name) => locate(owners, `${name}.${key}`).owner.id === instanceId);
        return `${clear ?? names[0]}.${key}`;
    }

    /**
     * Return the name of an instance, as it is offered.
     *
     * @param {string} instanceId
     */
    holderName(instanceId) {
        return this.owners.find(({ id }) => id === instanceId)?.names[0] ?? this.#seen.get(instanceId) ?? say('somebody');
    }

    /**
     * Return the names of everybody who has values, or may have: whom to offer.
     *
     * @returns {string[]}
     */
    get holders() {
        const owners = this.owners.filter(({ id }) => id !== null).map(({ names }) => names[0]);
        const others = this.#withoutValues.map(({ names }) => names[0]);
        return [...owners, ...others.filter((name) => !owners.some((owner) => isSame(owner, name)))];
    }

    /**
     * Return the instance of a name; create it if there is none. The people of the chat come before other
     * holders of values.
     *
     * @param {string} name
     */
    async instanceOf(name) {
        const { owners } = this;
        const called = (/** @type {{names: string[]}} */ { names }) => names.some((known) => isSame(known, name));
        const person = people().find((one) => called({ names: [one.name, ...one.aliases] }));
        const own = person && owners.find(({ id, names }) => id !== null && names.includes(person.id));
        const owner = own ?? (person ? null : owners.find((one) => one.id !== null && called(one)));
        if (owner) return this.chat.instance(owner.id);
        // A persona is named by SillyTavern alone, so that it follows a new name.
        const about = { characterId: person?.id ?? name, name: person && person.id === persona()?.id ? undefined : person?.name ?? name };
        const adding = this.#adding.get(about.characterId) ?? this.vt.chat.addInstance(about);
        this.#adding.set(about.characterId, adding);
        try {
            return await adding;
        } finally {
            this.#adding.delete(about.characterId);
        }
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
