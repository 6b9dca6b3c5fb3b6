'use strict';
/**
 * Splits the output stream of a child process into lines.
 */

const LINE_LENGTH = 64 * 1024;

/**
 * @param {import('node:stream').Readable} stream
 * @param {(line: string) => void} take
 */
function eachLine(stream, take) {
    let rest = '';
    stream.setEncoding('utf8');
    stream.on('error', () => {});
    stream.on('data', (/** @type {string} */ piece) => {
        const lines = (rest + piece).split(/\r?\n/);
        rest = /** @type {string} */ (lines.pop()).slice(-LINE_LENGTH);
        lines.filter(Boolean).forEach(take);
    });
    stream.on('end', () => {
        if (rest) {
            take(rest);
        }
    });
}

module.exports = { eachLine };
