/**
 * The markers around text that an extension inserts into a message.
 */

/** @typedef {'end'|'start'|{after: string}|{before: string}|{replace: string}} Position */

const MARKED = /<!-- vt:[\w-]+:[^>]*? -->[\s\S]*?<!-- \/vt -->/g;
export const END = '<!-- /vt -->';

/**
 * Return the text as the model or the player wrote it.
 *
 * @param {string} text
 */
export function withoutInserts(text) {
    return text.includes(END) ? text.replace(MARKED, '') : text;
}

/**
 * @param {string} extensionId
 * @param {string} id
 */
export function markerOf(extensionId, id) {
    // An id in a marker must not contain `-->` or a blank.
    return `<!-- vt:${extensionId}:${encodeURIComponent(id).replaceAll('-', '%2D')} -->`;
}

/** Two texts with more pairs of words are compared without the order of their words. */
const MOST_PAIRS = 1_000_000;

/**
 * Return how many of the words of a text have changed, in percent.
 *
 * @param {string} before
 * @param {string} after
 */
export function changePercent(before, after) {
    if (before === after) return 0;
    const [one, other] = [before, after].map((text) => text.split(/\s+/).filter(Boolean));
    const longest = Math.max(one.length, other.length);
    if (longest === 0) return 1;
    const common = one.length * other.length <= MOST_PAIRS ? inOrder(one, other) : inAnyOrder(one, other);
    return Math.max(1, Math.round(((longest - common) / longest) * 100));
}

/**
 * Count the words that two lists have in common, in the same order.
 *
 * @param {string[]} one
 * @param {string[]} other
 */
function inOrder(one, other) {
    let above = new Uint32Array(other.length + 1);
    for (const word of one) {
        const row = new Uint32Array(other.length + 1);
        other.forEach((candidate, index) => {
            row[index + 1] = candidate === word ? above[index] + 1 : Math.max(row[index], above[index + 1]);
        });
        above = row;
    }
    return above[other.length];
}

/**
 * @param {string[]} one
 * @param {string[]} other
 */
function inAnyOrder(one, other) {
    /** @type {Map<string, number>} */
    const left = new Map();
    for (const word of one) left.set(word, (left.get(word) ?? 0) + 1);
    return other.filter((word) => {
        const count = left.get(word) ?? 0;
        left.set(word, count - 1);
        return count > 0;
    }).length;
}

/**
 * Insert a block into a text.
 *
 * @param {string} text
 * @param {string} block
 * @param {Position} position
 * @returns {{text: string, found: boolean}} `found` is false if the position does not exist and the block was added at the end
 */
export function insertAt(text, block, position) {
    if (position === 'start') return { text: block + text, found: true };
    if (position === 'end') return { text: text + block, found: true };
    const wanted = 'after' in position ? position.after : 'before' in position ? position.before : position.replace;
    const at = wanted === '' ? -1 : text.indexOf(wanted);
    if (at < 0) return { text: text + block, found: false };
    const from = 'after' in position ? at + wanted.length : at;
    const to = 'replace' in position ? at + wanted.length : from;
    return { text: text.slice(0, from) + block + text.slice(to), found: true };
}
