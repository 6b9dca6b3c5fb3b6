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

/**
 * Return how much of a text has changed, in percent.
 *
 * @param {string} before
 * @param {string} after
 */
export function changePercent(before, after) {
    const longest = Math.max(before.length, after.length);
    const shortest = Math.min(before.length, after.length);
    if (longest === 0 || before === after) return 0;
    let head = 0;
    while (head < shortest && before[head] === after[head]) head++;
    let tail = 0;
    while (tail < shortest - head && before[before.length - 1 - tail] === after[after.length - 1 - tail]) tail++;
    return Math.max(1, Math.round(((longest - head - tail) / longest) * 100));
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
