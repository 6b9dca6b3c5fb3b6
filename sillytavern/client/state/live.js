/**
 * The live state: a proxy that calls back on every read and write.
 *
 * It knows nothing of chats and servers. `onWrite(key, assigned)` is called before the change. If
 * `onRead` or `onWrite` throws, nothing is read or changed.
 */

import { StaleStateError } from '../errors.js';
import { ABSENT, copyJson, isContainer } from './json.js';

const INDEX = /^(0|[1-9]\d{0,9})$/;
// eslint-disable-next-line no-control-regex
const CONTROL = /[\u0000-\u001f\u007f-\u009f]/;
const LONGEST_KEY = 1024;

/** From a proxy to its target; shared by all states, so that a proxy can be assigned into any of them. */
const targets = new WeakMap();

export class Live {
    #root = Object.create(null);
    /** @type {WeakMap<object, any>} */
    #proxies = new WeakMap();
    /** @type {WeakMap<object, {parent: any, key: string}>} */
    #parents = new WeakMap();
    #onRead;
    #onWrite;

    /**
     * @param {Record<string, any>} data
     * @param {{onRead: () => void, onWrite: (key: string, assigned: boolean) => void}} hooks
     */
    constructor(data, { onRead, onWrite }) {
        this.#onRead = onRead;
        this.#onWrite = onWrite;
        for (const key of Object.keys(data)) this.put(key, data[key]);
    }

    /** @returns {any} */
    get state() {
        return this.#proxy(this.#root);
    }

    keys() {
        return Object.keys(this.#root);
    }

    /**
     * @param {string} key
     * @returns {any} a copy, or ABSENT
     */
    copy(key) {
        return Object.hasOwn(this.#root, key) ? copyJson(this.#root[key]) : ABSENT;
    }

    /**
     * Set a key without calling back. Existing objects are changed in place, so that a reference to
     * one stays part of the state.
     *
     * @param {string} key
     * @param {any} value a value or ABSENT
     */
    put(key, value) {
        if (value === ABSENT) delete this.#root[key];
        else this.#assign(this.#root, key, value);
    }

    /**
     * @param {any} parent
     * @param {string} key
     * @param {any} value
     */
    #assign(parent, key, value) {
        const old = Object.hasOwn(parent, key) ? parent[key] : undefined;
        if (!isContainer(value)) {
            parent[key] = value;
        } else if (isContainer(old) && Array.isArray(old) === Array.isArray(value)) {
            if (Array.isArray(value)) old.length = value.length;
            for (const name of Object.keys(old)) if (!Object.hasOwn(value, name)) delete old[name];
            for (const name of Object.keys(value)) this.#assign(old, name, value[name]);
        } else {
            parent[key] = this.#adopt(copyJson(value), parent, key);
        }
    }

    /**
     * @param {any} value
     * @param {any} parent
     * @param {string} key
     */
    #adopt(value, parent, key) {
        if (!isContainer(value)) return value;
        this.#parents.set(value, { parent, key });
        for (const name of Object.keys(value)) this.#adopt(value[name], value, name);
        return value;
    }

    /**
     * Return the top-level key that contains a target. Throw if the target was removed from the state.
     *
     * @param {any} target
     * @param {string} key
     */
    #topKey(target, key) {
        let top = key;
        while (target !== this.#root) {
            const link = this.#parents.get(target);
            if (!link) throw new StaleStateError();
            const { parent } = link;
            if (Array.isArray(parent) ? !parent.includes(target) : parent[link.key] !== target) throw new StaleStateError();
            top = link.key;
            target = parent;
        }
        return top;
    }

    /**
     * @param {any} target
     * @param {string} key
     * @param {any} value
     */
    #write(target, key, value) {
        if (Array.isArray(target) && key !== 'length' && !INDEX.test(key)) {
            throw new TypeError(`A list cannot have the field ${key}: JSON would lose it.`);
        }
        if (target === this.#root && (key === '' || key.length > LONGEST_KEY || CONTROL.test(key))) {
            throw new TypeError('A key has 1 to 1024 characters, none of them a control character.');
        }
        const copy = value === undefined ? ABSENT : copyJson(targets.get(value) ?? value);
        const top = this.#topKey(target, key);
        this.#onWrite(top, target === this.#root);
        if (Array.isArray(target)) {
            const index = Number(key);
            if (key === 'length') {
                const length = target.length;
                target.length = value;
                for (let hole = length; hole < target.length; hole++) target[hole] = null;
                return;
            }
            // JSON lists have no holes: fill them with null.
            for (let hole = target.length; hole < index; hole++) target[hole] = null;
            target[index] = copy === ABSENT ? null : this.#adopt(copy, target, key);
        } else if (copy === ABSENT) {
            delete target[key];
        } else {
            target[key] = this.#adopt(copy, target, key);
        }
    }

    /** @param {any} target */
    #proxy(target) {
        let proxy = this.#proxies.get(target);
        if (!proxy) {
            proxy = new Proxy(target, this.#handler);
            this.#proxies.set(target, proxy);
            targets.set(proxy, target);
        }
        return proxy;
    }

    /** @param {any} value */
    #wrap(value) {
        return isContainer(value) ? this.#proxy(value) : value;
    }

    /** @type {ProxyHandler<any>} */
    #handler = {
        get: (target, key) => {
            this.#onRead();
            return this.#wrap(target[key]);
        },
        has: (target, key) => {
            this.#onRead();
            return Reflect.has(target, key);
        },
        ownKeys: (target) => {
            this.#onRead();
            return Reflect.ownKeys(target);
        },
        getOwnPropertyDescriptor: (target, key) => {
            this.#onRead();
            const found = Reflect.getOwnPropertyDescriptor(target, key);
            if (found && found.configurable) found.value = this.#wrap(found.value);
            return found;
        },
        set: (target, key, value) => {
            if (typeof key === 'symbol') throw new TypeError('A symbol cannot be a key.');
            this.#write(target, key, value);
            return true;
        },
        defineProperty: (target, key, descriptor) => {
            if (typeof key === 'symbol' || !('value' in descriptor)) throw new TypeError('Only plain values can be stored, no accessors or symbols.');
            this.#write(target, key, descriptor.value);
            return true;
        },
        deleteProperty: (target, key) => {
            if (typeof key === 'symbol' || !Object.hasOwn(target, key)) return true;
            this.#write(target, key, undefined);
            return true;
        },
        setPrototypeOf: () => false,
        preventExtensions: () => false,
    };
}
