/**
 * The types of values, as the model is told them. A value keeps its type: the model may not change it,
 * because later calls and other extensions count on it. The player may.
 */

import { asText, kindOf, read } from './typed.js';

/** How many values are listed, and how many characters of each. */
const MOST = 50;
const LONGEST = 80;

/** @typedef {'nothing'|'text'|'number'|'true or false'|'list'|'object'} Type */

/**
 * @param {any} value undefined: missing
 * @returns {Type}
 */
export function typeOf(value) {
    if (Array.isArray(value)) return 'list';
    const kind = kindOf(value);
    return kind === 'switch' ? 'true or false' : kind === 'json' ? 'object' : /** @type {Type} */ (kind);
}

/**
 * Return what the model means, in the type of the value before. Models often write a number, a list
 * or true and false as text.
 *
 * @param {any} before undefined: missing; then it may have any type, and the text of a number is a number
 * @param {any} value
 * @returns {{value: any}|null} null: it has another type
 */
export function fitting(before, value) {
    const wanted = typeOf(before);
    const given = typeOf(value);
    if (given === 'nothing' || given === wanted) return { value };
    if (typeof value !== 'string') return wanted === 'nothing' ? { value } : null;
    if (wanted === 'nothing') {
        const number = read('number', value);
        return 'value' in number ? number : { value };
    }
    const meant = wanted === 'number' ? readNumber(value) : read('json', wanted === 'true or false' ? value.toLowerCase() : value);
    return 'value' in meant && typeOf(meant.value) === wanted ? meant : null;
}

/**
 * Read a number that may be written loosely, such as +5 or 05.
 *
 * @param {string} text
 */
function readNumber(text) {
    const found = read('number', text);
    const loosely = 'problem' in found && found.problem === 'notANumber' && text.trim() ? Number(text) : NaN;
    return Number.isFinite(loosely) ? { value: loosely } : found;
}

/**
 * Return a value as one short text.
 *
 * @param {any} value
 */
export function shortText(value) {
    const text = asText(value);
    return text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text;
}

/**
 * List values for the model, each with its name, its type and, if it is told, its value.
 *
 * @param {Array<{name: string, value: any, told: boolean}>} values
 * @returns {string} empty if there are none
 */
export function listed(values) {
    const lines = values.slice(0, MOST).map(({ name, value, told }) => `${name} (${typeOf(value)})${told ? `: ${shortText(value)}` : ''}`);
    if (values.length > MOST) lines.push(`and ${values.length - MOST} more`);
    return lines.join('; ');
}
