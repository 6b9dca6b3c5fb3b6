/**
 * Finds values by name in macros, commands and prompts: `key`, `key.path`, `character.key.path`.
 *
 * Keys and names may contain dots: the longest existing name wins, and the chat's own values come
 * before those of its instances. A name in other letters (HP for hp) means the same value, unless there
 * is one with exactly these letters.
 */

const LONGEST_KEY = 1024;
// eslint-disable-next-line no-control-regex
const CONTROL = /[\u0000-\u001f\u007f-\u009f]/;
const INDEX = /^(0|[1-9]\d*)$/;

/**
 * Return true if a text is a valid key.
 *
 * @param {string} key
 */
export function isKey(key) {
    return key !== '' && key.length <= LONGEST_KEY && !CONTROL.test(key);
}

/**
 * An owner of values: the chat itself (no names), or an instance.
 *
 * @typedef {object} Owner
 * @property {string|null} id null: the chat; empty: a character without an instance yet
 * @property {string[]} names that may be used for it
 * @property {any} data
 */

/** Marks a missing value; null is a value. */
export const ABSENT = Symbol('absent');

/**
 * @param {Owner[]} owners
 * @param {string} path
 * @returns {any} the value, or ABSENT
 */
export function lookUp(owners, path) {
    const found = existing(readings(owners, path));
    return found ? found.keys.reduce((value, key) => value[key], found.owner.data) : ABSENT;
}

/**
 * Return the first reading that leads to a value. Only if none does, the case of letters is ignored.
 *
 * @param {Array<{owner: Owner, rest: string}>} found
 * @returns {{owner: Owner, keys: string[]}|null}
 */
function existing(found) {
    for (const exact of [true, false]) {
        for (const { owner, rest } of found) {
            const keys = steps(owner.data, rest, exact);
            if (keys) return { owner, keys };
        }
    }
    return null;
}

/**
 * Find where a value is, or where it would be created: its owner, its key, and the path inside the value.
 *
 * @param {Owner[]} owners
 * @param {string} path
 * @returns {{owner: Owner, keys: string[]}}
 */
export function locate(owners, path) {
    const found = readings(owners, path);
    const there = existing(found);
    if (there) return there;
    // A new field of an existing object or list; else a new key of the named owner.
    for (const { owner, rest } of found) {
        for (const [head, field] of splits(rest)) {
            const keys = steps(owner.data, head, true) ?? steps(owner.data, head, false);
            const inside = keys?.reduce((value, key) => value[key], owner.data);
            if (keys && isContainer(inside)) return { owner, keys: [...keys, field] };
        }
    }
    const { owner, rest } = found.at(-1) ?? { owner: owners[0], rest: path };
    return { owner, keys: [rest] };
}

/**
 * Return the possible owners of a path: first the chat, then those whose name it begins with.
 *
 * @param {Owner[]} owners
 * @param {string} path
 */
function readings(owners, path) {
    const found = [];
    for (const owner of owners) {
        if (owner.id === null) found.push({ owner, rest: path });
        for (const name of owner.names) {
            const begins = path[name.length] === '.' && path.slice(0, name.length).toLowerCase() === name.toLowerCase();
            if (name && begins && path.length > name.length + 1) {
                found.push({ owner, rest: path.slice(name.length + 1) });
            }
        }
    }
    return found;
}

/**
 * Return the keys that lead to a value, or null.
 *
 * @param {any} container
 * @param {string} path
 * @param {boolean} exact false: in any case of letters
 * @returns {string[]|null}
 */
function steps(container, path, exact) {
    if (!isContainer(container)) return null;
    const whole = keyIn(container, path, exact);
    if (whole !== null) return [whole];
    for (const [head, rest] of splits(path)) {
        const key = keyIn(container, head, exact);
        const further = key === null ? null : steps(container[key], rest, exact);
        if (key !== null && further) return [key, ...further];
    }
    return null;
}

/**
 * @param {any} container
 * @param {string} key
 * @param {boolean} exact
 * @returns {string|null} the key as it is written there
 */
function keyIn(container, key, exact) {
    if (Object.hasOwn(container, key)) return key;
    if (exact) return null;
    return Object.keys(container).find((one) => one.toLowerCase() === key.toLowerCase()) ?? null;
}

/**
 * Split a path at each dot, the last one first.
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
 * Return true if a field can be set: an index of a list may be at most its length.
 *
 * @param {any} container
 * @param {string} field
 */
export function canSetField(container, field) {
    return !Array.isArray(container) || (INDEX.test(field) && Number(field) <= container.length);
}

/** @param {any} value */
function isContainer(value) {
    return value !== null && typeof value === 'object';
}
