/**
 * JSON values inside the library: copy, compare, and find the smallest operation that leads from one
 * value to another.
 *
 * Objects have no prototype, so `__proto__` and `constructor` are ordinary keys.
 */

import { ValueTrackerError } from '../errors.js';
import { integer, isKept, sum } from './exact.js';

/** @typedef {{op: string, key?: string, value?: any, by?: number}} Operation */

/** Marks a missing value; null is a value. */
export const ABSENT = Symbol('absent');

const LONE_SURROGATE = /[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/;
const DEEPEST = 128;
/** If more items than this are added to a list, the whole list is sent. */
const MOST_APPENDED = 50;
/** If a patch has more operations than this, the whole value is sent. */
const MOST_PATCHED = 100;
/** About how many characters an operation of a patch takes, beside its value. */
const OPERATION_WEIGHT = 40;

/**
 * Copy a JSON value. Throw for anything that is not JSON: it would be lost when it is sent.
 *
 * @param {any} value
 * @param {number} [depth]
 * @returns {any}
 */
export function copyJson(value, depth = 0) {
    if (value !== null && typeof value === 'object' && typeof value.toJSON === 'function') value = value.toJSON();
    if (value === null || typeof value === 'boolean') return value;
    if (typeof value === 'string') return checkedText(value);
    if (typeof value === 'number') {
        if (!Number.isFinite(value)) throw new TypeError(`${value} is not JSON.`);
        return value;
    }
    if (typeof value === 'bigint') {
        if (!isKept(value)) throw new TypeError(`${value} is too large to be stored.`);
        return integer(value);
    }
    if (typeof value !== 'object') throw new TypeError(`A ${typeof value} is not JSON.`);
    if (depth >= DEEPEST) throw new TypeError(`The value is nested more than ${DEEPEST} deep, or contains itself.`);
    if (Array.isArray(value)) {
        return Array.from(value, (item) => (item === undefined ? null : copyJson(item, depth + 1)));
    }
    if (value instanceof Map || value instanceof Set) throw new TypeError('A Map or Set is not JSON.');
    const copy = Object.create(null);
    for (const key of Object.keys(value)) {
        if (value[key] !== undefined) copy[checkedText(key)] = copyJson(value[key], depth + 1);
    }
    return copy;
}

/** @param {string} text */
function checkedText(text) {
    if (LONE_SURROGATE.test(text)) throw new TypeError('The text contains half of a surrogate pair.');
    return text;
}

/**
 * Copy a value into ordinary objects, to return to callers.
 *
 * @param {any} value
 * @returns {any}
 */
export function plainJson(value) {
    if (Array.isArray(value)) return value.map(plainJson);
    if (value === null || typeof value !== 'object') return value;
    const copy = {};
    for (const key of Object.keys(value)) {
        // Assigning `__proto__` would set the prototype.
        Object.defineProperty(copy, key, {
            value: plainJson(value[key]), enumerable: true, configurable: true, writable: true,
        });
    }
    return copy;
}

/** @param {any} value */
export function isContainer(value) {
    return value !== null && typeof value === 'object';
}

/** @param {any} value */
function isObject(value) {
    return isContainer(value) && !Array.isArray(value);
}

/**
 * Compare two values; ABSENT equals only ABSENT.
 *
 * @param {any} one
 * @param {any} other
 * @returns {boolean}
 */
export function equalJson(one, other) {
    if (one === other) return true;
    if (!isContainer(one) || !isContainer(other) || Array.isArray(one) !== Array.isArray(other)) return false;
    const keys = Object.keys(one);
    return keys.length === Object.keys(other).length
        && keys.every((key) => Object.hasOwn(other, key) && equalJson(one[key], other[key]));
}

/**
 * Return the operations for the change of one key.
 *
 * Changed fields are merged, items added to a list are appended, and other small changes of a large
 * value are a patch. So a swipe can undo each of them alone, each combines with the writes of other
 * clients, and no more is sent than what changed.
 *
 * @param {string} key
 * @param {any} before a value or ABSENT
 * @param {any} after a value or ABSENT
 * @param {boolean} assigned true if the key itself was set, false if something inside its value was
 * @returns {Operation[]}
 */
export function operationsFor(key, before, after, assigned) {
    if (after === ABSENT) return before === ABSENT ? [] : [{ op: 'remove', key }];
    if (!assigned) {
        if (equalJson(before, after)) return [];
        const patch = isObject(before) && isObject(after) ? mergePatch(before, after) : ABSENT;
        if (Array.isArray(before) && Array.isArray(after)) {
            const added = after.length - before.length;
            if (added > 0 && added <= MOST_APPENDED && before.every((item, index) => equalJson(item, after[index]))) {
                return after.slice(before.length).map((value) => ({ op: 'append', key, value }));
            }
        }
        const operations = patchFor(before, after);
        if (operations.length <= MOST_PATCHED && 2 * weightOf(operations) < weightOf(patch === ABSENT ? after : patch)) {
            return [{ op: 'patch', key, value: operations }];
        }
        if (patch !== ABSENT) return [{ op: 'merge', key, value: patch }];
    }
    return [{ op: 'set', key, value: after }];
}

/** @typedef {{op: 'add'|'replace'|'remove', path: string, value?: any}} PatchOperation */

/**
 * Return the JSON Patch (RFC 6902) that leads from one value to another.
 *
 * @param {any} before
 * @param {any} after
 * @param {string} [path]
 * @returns {PatchOperation[]}
 */
export function patchFor(before, after, path = '') {
    if (equalJson(before, after)) return [];
    if (isObject(before) && isObject(after)) return patchOfObject(before, after, path);
    if (Array.isArray(before) && Array.isArray(after)) return patchOfList(before, after, path);
    return [{ op: 'replace', path, value: after }];
}

/**
 * @param {any} before
 * @param {any} after
 * @param {string} path
 */
function patchOfObject(before, after, path) {
    /** @type {PatchOperation[]} */
    const found = [];
    for (const key of Object.keys(before)) {
        if (!Object.hasOwn(after, key)) found.push({ op: 'remove', path: `${path}/${escaped(key)}` });
    }
    for (const key of Object.keys(after)) {
        const inner = `${path}/${escaped(key)}`;
        if (Object.hasOwn(before, key)) found.push(...patchFor(before[key], after[key], inner));
        else found.push({ op: 'add', path: inner, value: after[key] });
    }
    return found;
}

/**
 * @param {any[]} before
 * @param {any[]} after
 * @param {string} path
 */
function patchOfList(before, after, path) {
    const shorter = Math.min(before.length, after.length);
    let start = 0;
    while (start < shorter && equalJson(before[start], after[start])) start++;
    let end = 0;
    while (end < shorter - start && equalJson(before[before.length - 1 - end], after[after.length - 1 - end])) end++;
    const [removed, added] = [before.length - start - end, after.length - start - end];
    const changed = Math.min(removed, added);
    /** @type {PatchOperation[]} */
    const found = [];
    for (let index = start; index < start + changed; index++) {
        found.push(...patchFor(before[index], after[index], `${path}/${index}`));
    }
    for (let count = changed; count < removed; count++) found.push({ op: 'remove', path: `${path}/${start + changed}` });
    for (let index = start + changed; index < start + added; index++) {
        found.push({ op: 'add', path: `${path}/${index}`, value: after[index] });
    }
    return found;
}

/** @param {string} key */
function escaped(key) {
    return key.replaceAll('~', '~0').replaceAll('/', '~1');
}

/**
 * Return about how many characters a value takes as JSON.
 *
 * @param {any} value
 * @returns {number}
 */
function weightOf(value) {
    if (typeof value === 'string') return value.length + 3;
    if (!isContainer(value)) return 6;
    if (Array.isArray(value)) return value.reduce((sum, item) => sum + weightOf(item), 2);
    const beside = Object.hasOwn(value, 'op') && Object.hasOwn(value, 'path') ? OPERATION_WEIGHT : 2;
    return Object.keys(value).reduce((sum, key) => sum + key.length + 3 + weightOf(value[key]), beside);
}

/**
 * @param {any} before
 * @param {any} after
 * @returns {any} the patch (RFC 7396), or ABSENT: a merge patch cannot set a field to null
 */
function mergePatch(before, after) {
    const patch = Object.create(null);
    for (const key of Object.keys(after)) {
        const value = after[key];
        if (Object.hasOwn(before, key) && equalJson(before[key], value)) continue;
        if (isObject(value) && isObject(before[key])) {
            const inner = mergePatch(before[key], value);
            if (inner === ABSENT) return ABSENT;
            patch[key] = inner;
        } else if (holdsNull(value)) {
            return ABSENT;
        } else {
            patch[key] = value;
        }
    }
    for (const key of Object.keys(before)) {
        if (!Object.hasOwn(after, key)) patch[key] = null;
    }
    return patch;
}

/**
 * @param {any} value
 * @returns {boolean}
 */
function holdsNull(value) {
    return value === null || (isObject(value) && Object.keys(value).some((key) => holdsNull(value[key])));
}

/**
 * Return true for an operator that overwrites the value before it. The others change that value.
 *
 * @param {string} op
 */
export function overwrites(op) {
    return op === 'set' || op === 'remove';
}

/**
 * Return the value after an operation, as the server computes it.
 *
 * @param {any} before a value or ABSENT
 * @param {Operation} operation
 * @returns {any} a value or ABSENT
 */
export function applied(before, { op, value, by = 0 }) {
    switch (op) {
        case 'set':
            return copyJson(value);
        case 'remove':
            return ABSENT;
        case 'increment':
            return typeof before === 'bigint' ? copyJson(sum(before, by)) : of('number', before, 0) + by;
        case 'append':
            return [...of('array', before, []), copyJson(value)];
        case 'addToSet': {
            const list = of('array', before, []);
            return list.some((/** @type {any} */ item) => equalJson(item, value)) ? list : [...list, copyJson(value)];
        }
        case 'pull':
            return of('array', before, []).filter((/** @type {any} */ item) => !equalJson(item, value));
        case 'merge':
            return merged(of('object', before, {}), value);
        case 'patch':
            return patched(before, value);
        default:
            throw new TypeError(`Unknown operator: ${op}.`);
    }
}

/**
 * @param {'number'|'array'|'object'} kind
 * @param {any} value
 * @param {any} otherwise
 */
function of(kind, value, otherwise) {
    if (value === ABSENT) return otherwise;
    const is = Array.isArray(value) ? 'array' : typeof value;
    if (value === null || is !== kind) {
        throw new ValueTrackerError(`The value has the wrong type for this operation: ${value === null ? 'null' : is}, not ${kind}.`, {
            code: 'type_conflict',
        });
    }
    return value;
}

/**
 * @param {any} target
 * @param {any} patch
 * @returns {any}
 */
function merged(target, patch) {
    if (!isObject(patch)) return copyJson(patch);
    const result = Object.create(null);
    if (isObject(target)) for (const key of Object.keys(target)) result[key] = copyJson(target[key]);
    for (const key of Object.keys(patch)) {
        if (patch[key] === null) delete result[key];
        else result[key] = merged(result[key], patch[key]);
    }
    return result;
}

/**
 * Apply the operations that `patchFor` makes.
 *
 * @param {any} before a value or ABSENT
 * @param {PatchOperation[]} operations
 */
function patched(before, operations) {
    let result = before === ABSENT ? ABSENT : copyJson(before);
    for (const { op, path, value } of operations) {
        const parts = path.split('/').slice(1).map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'));
        const last = parts.pop();
        if (last === undefined) {
            result = copyJson(value);
            continue;
        }
        let target = result;
        for (const part of parts) target = isContainer(target) && Object.hasOwn(target, part) ? target[part] : undefined;
        const there = isContainer(target) && Object.hasOwn(target, last);
        const appends = op === 'add' && Array.isArray(target) && (last === '-' || last === String(target.length));
        if (!isContainer(target) || (!there && !appends && (op !== 'add' || Array.isArray(target)))) {
            throw new ValueTrackerError('The patch does not fit the value.', { code: 'patch_failed' });
        }
        if (!Array.isArray(target)) {
            if (op === 'remove') delete target[last];
            else target[last] = copyJson(value);
        } else if (appends) {
            target.push(copyJson(value));
        } else {
            target.splice(Number(last), op === 'add' ? 0 : 1, ...(op === 'remove' ? [] : [copyJson(value)]));
        }
    }
    return result;
}

/** Make a unique id. `crypto.randomUUID` is missing on plain http from another machine. */
export function newId() {
    const bytes = crypto.getRandomValues(new Uint8Array(16));
    return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** Make a shorter unique id, for messages and swipes, which are sent by the thousand: 96 bits in 16 characters. */
export function shortId() {
    const bytes = crypto.getRandomValues(new Uint8Array(12));
    return btoa(String.fromCharCode(...bytes)).replaceAll('+', '-').replaceAll('/', '_');
}
