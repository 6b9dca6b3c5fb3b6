/**
 * How values are called in macros, commands and prompts: `key`, `key.path`, `who.key.path`.
 *
 * Keys and names may hold dots themselves: the longest name that is there wins, and the chat's own
 * values come before those of its instances.
 */

const LONGEST_KEY = 1024;
// eslint-disable-next-line no-control-regex
const CONTROL = /[\u0000-\u001f\u007f-\u009f]/;
const INDEX = /^(0|[1-9]\d*)$/;

/**
 * Whether a value may be called so.
 *
 * @param {string} key
 */
export function isKey(key) {
    return key !== '' && key.length <= LONGEST_KEY && !CONTROL.test(key);
}

/**
 * One bearer of values: the chat itself (no names), or an instance.
 *
 * @typedef {object} Bearer
 * @property {string|null} id null is the chat; the empty one is somebody who has no instance yet
 * @property {string[]} names what it may be called
 * @property {any} data
 */

/** Stands for a value that is not there, which is not null. */
export const ABSENT = Symbol('absent');

/**
 * @param {Bearer[]} bearers
 * @param {string} path
 * @returns {any} the value, or ABSENT
 */
export function lookUp(bearers, path) {
    for (const { bearer, rest } of readings(bearers, path)) {
        const keys = steps(bearer.data, rest);
        if (keys) return keys.reduce((value, key) => value[key], bearer.data);
    }
    return ABSENT;
}

/**
 * Where a value of that name is, or would be made: the key, and the way inside its value.
 *
 * @param {Bearer[]} bearers
 * @param {string} path
 * @returns {{bearer: Bearer, keys: string[]}}
 */
export function locate(bearers, path) {
    const found = readings(bearers, path);
    for (const { bearer, rest } of found) {
        const keys = steps(bearer.data, rest);
        if (keys) return { bearer, keys };
    }
    // A new part of an object or list that is there; else a new key of whom is named.
    for (const { bearer, rest } of found) {
        for (const [head, field] of splits(rest)) {
            const keys = steps(bearer.data, head);
            const inside = keys?.reduce((value, key) => value[key], bearer.data);
            if (keys && isContainer(inside)) return { bearer, keys: [...keys, field] };
        }
    }
    const { bearer, rest } = found.at(-1) ?? { bearer: bearers[0], rest: path };
    return { bearer, keys: [rest] };
}

/**
 * Whose value a path may speak of; first the chat, then those whose name it begins with.
 *
 * @param {Bearer[]} bearers
 * @param {string} path
 */
function readings(bearers, path) {
    const found = [];
    for (const bearer of bearers) {
        if (bearer.id === null) found.push({ bearer, rest: path });
        for (const name of bearer.names) {
            if (name && path.length > name.length + 1 && path.startsWith(`${name}.`)) {
                found.push({ bearer, rest: path.slice(name.length + 1) });
            }
        }
    }
    return found;
}

/**
 * The keys that lead to a value, or null.
 *
 * @param {any} container
 * @param {string} path
 * @returns {string[]|null}
 */
function steps(container, path) {
    if (!isContainer(container)) return null;
    if (Object.hasOwn(container, path)) return [path];
    for (const [head, rest] of splits(path)) {
        if (!Object.hasOwn(container, head)) continue;
        const further = steps(container[head], rest);
        if (further) return [head, ...further];
    }
    return null;
}

/**
 * At each dot, the last one first.
 *
 * @param {string} path
 * @returns {Array<[string, string]>}
 */
function splits(path) {
    const found = /** @type {Array<[string, string]>} */ ([]);
    for (let dot = path.lastIndexOf('.'); dot > 0; dot = path.lastIndexOf('.', dot - 1)) {
        found.push([path.slice(0, dot), path.slice(dot + 1)]);
    }
    return found;
}

/**
 * Whether something can be put there: a list has items without a gap between them.
 *
 * @param {any} container
 * @param {string} field
 */
export function hasRoom(container, field) {
    return !Array.isArray(container) || (INDEX.test(field) && Number(field) <= container.length);
}

/** @param {any} value */
function isContainer(value) {
    return value !== null && typeof value === 'object';
}
