'use strict';
/**
 * Writes lines to SillyTavern's console. Control characters are removed first, so that no text can
 * start a new line or control the terminal.
 */

const PREFIX = '[ValueTracker]';
const LINE_LENGTH = 4000;

/** @param {unknown} text */
function plain(text) {
    // eslint-disable-next-line no-control-regex
    return String(text).slice(0, LINE_LENGTH).replace(/[\u0000-\u001f\u007f-\u009f\u2028\u2029]+/g, ' ').trim();
}

/** @param {'info' | 'warn' | 'error'} level @param {unknown[]} pieces */
function line(level, pieces) {
    try {
        console[level](PREFIX, plain(pieces.join(' ')));
    } catch {
        // A closed console (EPIPE) is no reason to stop.
    }
}

/** @typedef {{info: (...pieces: unknown[]) => void, warn: (...pieces: unknown[]) => void, error: (...pieces: unknown[]) => void}} Log */

/** @type {Log} */
const log = {
    info: (...pieces) => line('info', pieces),
    warn: (...pieces) => line('warn', pieces),
    error: (...pieces) => line('error', pieces),
};

module.exports = { log, plain };
