/**
 * JSON with exact integers: an integer that a JavaScript number cannot hold becomes a BigInt.
 *
 * `JSON.parse` rounds such integers, and only the newest browsers show a reviver their text. So they
 * are put in quotes behind a random word before the JSON is parsed, and unquoted after it is written.
 */

const WORD = Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, '0')).join('');
/** An integer with fewer digits always fits a JavaScript number. */
const LONG = /\d{16}/;
const TOKEN = /"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*/g;
const INTEGER = /^-?\d{16,}$/;
const QUOTED = new RegExp(`"${WORD}(-?\\d+)"`, 'g');

/** The server stores integers from −2^63 to 2^64−1. */
const LEAST = -(2n ** 63n);
const MOST = 2n ** 64n - 1n;

/**
 * Return an integer as a number if that is exact, else as a BigInt.
 *
 * @param {bigint} value
 * @returns {number|bigint}
 */
export function integer(value) {
    return Number.isSafeInteger(Number(value)) ? Number(value) : value;
}

/**
 * Return true if the server can store an integer.
 *
 * @param {bigint} value
 */
export function isKept(value) {
    return value >= LEAST && value <= MOST;
}

/**
 * @param {string} text
 * @returns {any}
 */
export function parseExact(text) {
    if (!LONG.test(text)) return JSON.parse(text);
    let found = false;
    const quoted = text.replace(TOKEN, (token) => {
        if (!INTEGER.test(token) || Number.isSafeInteger(Number(token))) return token;
        found = true;
        return `"${WORD}${token}"`;
    });
    if (!found) return JSON.parse(text);
    // Refuse what is not JSON first: the quotes would hide a number such as 01234567890123456.
    JSON.parse(text);
    return JSON.parse(quoted, (_, part) => (typeof part === 'string' && part.startsWith(WORD) ? BigInt(part.slice(WORD.length)) : part));
}

/**
 * @param {any} value
 * @param {string|number} [indent]
 * @returns {string} empty where `JSON.stringify` returns undefined
 */
export function exactText(value, indent) {
    let found = false;
    const text = JSON.stringify(value, (_, part) => {
        if (typeof part !== 'bigint') return part;
        found = true;
        return `${WORD}${part}`;
    }, indent) ?? '';
    return found ? text.replace(QUOTED, '$1') : text;
}

/**
 * Return true if a value is or contains a BigInt, which `JSON.stringify` refuses.
 *
 * @param {any} value
 * @returns {boolean}
 */
export function holdsBigInt(value) {
    if (typeof value === 'bigint') return true;
    return value !== null && typeof value === 'object' && Object.values(value).some(holdsBigInt);
}

/**
 * Add two numbers; exactly, if one is a BigInt and the other an integer.
 *
 * @param {number|bigint} one
 * @param {number|bigint} other
 * @returns {number|bigint}
 */
export function sum(one, other) {
    if (typeof one === 'number' && typeof other === 'number') return one + other;
    const whole = [one, other].every((part) => typeof part === 'bigint' || Number.isInteger(part));
    return whole ? integer(BigInt(one) + BigInt(other)) : Number(one) + Number(other);
}
