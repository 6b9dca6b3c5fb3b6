/**
 * Turns values into text and text into values. The type of a value changes only if the player chooses
 * another one: a text "5" stays text when it is edited.
 */

import { exactText, isKept, parseExact } from '../client/valuetracker.js';

/** @typedef {'auto'|'text'|'number'|'switch'|'json'|'nothing'} Kind */
/** @typedef {{value: any}|{problem: 'notANumber'|'notExact'|'notJson'|'tooDeep', error?: string}} Read */

const NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/;
const DEEPEST = 128;
/** The beginning of an object or a list; not that of a macro, or of a word in brackets. */
const BEGINS_JSON = /^\s*(\{(?!\{)|\[\s*["\d[{-])/;

/**
 * @param {any} value
 * @returns {Kind}
 */
export function kindOf(value) {
    if (value === null || value === undefined) return 'nothing';
    if (typeof value === 'string') return 'text';
    if (typeof value === 'number' || typeof value === 'bigint') return 'number';
    if (typeof value === 'boolean') return 'switch';
    return 'json';
}

/**
 * Return a value as text for the model and for macros: text unchanged, everything else as JSON.
 *
 * @param {any} value
 * @returns {string}
 */
export function asText(value) {
    return typeof value === 'string' ? value : exactText(value);
}

/**
 * Return text for a prompt with its macros disabled. SillyTavern expands macros more than once, and a value must not contain any.
 *
 * @param {string} text
 */
export function withoutMacros(text) {
    return text.replace(/\{(?=\{)/g, '{ ');
}

/**
 * Return the text that an input shows for a value.
 *
 * @param {Kind} kind
 * @param {any} value
 * @returns {string}
 */
export function asInput(kind, value) {
    if (value === undefined || value === null) return '';
    if (kind === 'json') return exactText(value, typeof value === 'object' ? 2 : undefined);
    return asText(value);
}

/**
 * @param {Kind} kind
 * @param {string} text
 * @returns {Read}
 */
export function read(kind, text) {
    switch (kind) {
        case 'auto':
            return meant(text);
        case 'text':
            return { value: text };
        case 'number':
            return readNumber(text.trim());
        case 'switch':
            return { value: text === 'true' };
        case 'nothing':
            return { value: null };
        default:
            return readJson(text);
    }
}

/**
 * @param {string} text
 * @returns {Read}
 */
function readNumber(text) {
    if (!NUMBER.test(text) || !Number.isFinite(Number(text))) return { problem: 'notANumber' };
    const value = parseExact(text);
    return isExact(value) ? { value } : { problem: 'notExact' };
}

/**
 * Return true if the server can store exactly this number.
 *
 * @param {number|bigint} value
 */
function isExact(value) {
    if (typeof value === 'bigint') return isKept(value);
    return Number.isFinite(value) && (!Number.isInteger(value) || Number.isSafeInteger(value));
}

/**
 * @param {any} value
 * @returns {boolean}
 */
function areExact(value) {
    if (typeof value === 'number' || typeof value === 'bigint') return isExact(value);
    return value === null || typeof value !== 'object' || Object.values(value).every(areExact);
}

/**
 * @param {string} text
 * @returns {Read}
 */
function readJson(text) {
    let value;
    try {
        value = parseExact(text);
    } catch (error) {
        return { problem: 'notJson', error: /** @type {Error} */ (error).message };
    }
    if (depthOf(value) > DEEPEST) return { problem: 'tooDeep' };
    return areExact(value) ? { value } : { problem: 'notExact' };
}

/**
 * @param {any} value
 * @returns {number}
 */
function depthOf(value) {
    if (value === null || typeof value !== 'object') return 0;
    return 1 + Object.values(value).reduce((deepest, part) => Math.max(deepest, depthOf(part)), 0);
}

/**
 * Parse what a player types in a command: JSON if it is JSON, else text. A number that cannot be stored
 * exactly is refused: a player who types a number does not mean text.
 *
 * @param {string} text
 * @returns {Read}
 */
export function meant(text) {
    const found = readJson(text);
    return 'problem' in found && found.problem === 'notJson' ? { value: text } : found;
}

/**
 * Return what is wrong with a text that looks like a list or an object and is none; empty if nothing is.
 *
 * @param {string} text
 * @returns {string}
 */
export function brokenJson(text) {
    const found = BEGINS_JSON.test(text) ? readJson(text) : { value: text };
    return 'problem' in found && found.problem === 'notJson' ? found.error ?? '' : '';
}

/**
 * Return the change inside two objects or lists if there is only one: its path, and the values there.
 *
 * @param {any} before
 * @param {any} after
 * @returns {{path: string[], before: any, after: any}}
 */
export function narrowed(before, after) {
    const path = [];
    while (isContainer(before) && isContainer(after) && Array.isArray(before) === Array.isArray(after)) {
        const keys = [...new Set([...Object.keys(before), ...Object.keys(after)])];
        const changed = keys.filter((key) => exactText(fieldOf(before, key)) !== exactText(fieldOf(after, key)));
        if (changed.length !== 1) break;
        path.push(changed[0]);
        [before, after] = [fieldOf(before, changed[0]), fieldOf(after, changed[0])];
    }
    return { path, before, after };
}

/** @param {any} value */
function isContainer(value) {
    return value !== null && typeof value === 'object';
}

/**
 * @param {any} container
 * @param {string} key
 */
function fieldOf(container, key) {
    return Object.hasOwn(container, key) ? container[key] : undefined;
}

/**
 * Return true if a text could be taken for a value of another kind.
 *
 * @param {string} text
 */
export function looksTyped(text) {
    const found = meant(text);
    return 'problem' in found || typeof found.value !== 'string' || found.value !== text;
}
