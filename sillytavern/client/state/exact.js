/**
 * JSON whose integers stay what they are: those a number of JavaScript cannot hold are a BigInt.
 *
 * `JSON.parse` rounds them, and only the newest browsers let a reviver see the text. So they are put
 * in quotes with a word nobody else knows before JSON is read, and taken out of them when it is written.
 */

const WORD = Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, '0')).join('');
/** The shortest integer that may not be exact has so many digits. */
const LONG = /\d{16}/;
const TOKEN = /"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*/g;
const INTEGER = /^-?\d{16,}$/;
const QUOTED = new RegExp(`"${WORD}(-?\\d+)"`, 'g');

/** What the server keeps: −2^63 to 2^64−1. */
const LEAST = -(2n ** 63n);
const MOST = 2n ** 64n - 1n;

/**
 * An integer as a number where that is exact, else as it is.
 *
 * @param {bigint} value
 * @returns {number|bigint}
 */
export function integer(value) {
    return Number.isSafeInteger(Number(value)) ? Number(value) : value;
}

/**
 * Whether the server would keep such an integer.
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
    // In quotes what is no number in JSON would pass for one: 01234567890123456.
    JSON.parse(text);
    return JSON.parse(quoted, (_, part) => (typeof part === 'string' && part.startsWith(WORD) ? BigInt(part.slice(WORD.length)) : part));
}

/**
 * @param {any} value
 * @param {string|number} [indent]
 * @returns {string} nothing, where `JSON.stringify` gives none
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
 * Whether a value is, or holds, an integer that JSON as JavaScript writes it cannot say.
 *
 * @param {any} value
 * @returns {boolean}
 */
export function holdsBigInt(value) {
    if (typeof value === 'bigint') return true;
    return value !== null && typeof value === 'object' && Object.values(value).some(holdsBigInt);
}

/**
 * A sum; exact where one of them is a BigInt and the other an integer.
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
