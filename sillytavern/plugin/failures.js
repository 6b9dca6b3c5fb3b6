'use strict';
/**
 * Describes why the server does not run: a sentence for the log, a hint, and a reason. The page has a
 * sentence of its own for each reason, and shows the hint for others: it contains no path of this machine.
 */

const IN_USE = 3;

/**
 * @typedef {object} Failure
 * @property {number | null} [code] The exit code.
 * @property {string | null} [signal]
 * @property {string[]} [said] The last lines on standard error.
 * @property {Error & {code?: string, hint?: string}} [error] The error that prevented the start.
 * @property {string} [python]
 * @property {string} [dataDir]
 */

/** @param {Error} error @param {string} [python] @returns {Failure} */
function startFailure(error, python) {
    return { error, python };
}

/** @param {Failure} failure */
function describe(failure) {
    const { code, signal, said = [], error, python, dataDir } = failure;
    if (error) {
        if (error.hint) {
            return { sentence: error.message, hint: error.hint, reason: 'settings' };
        }
        return {
            sentence: `The server could not be started: ${error.message}${python ? ` (${python})` : ''}.`,
            hint: error.code === 'ENOENT' || error.code === 'EACCES'
                ? 'The Python that installed Value Tracker no longer exists. Run `valuetracker sillytavern install` again, '
                    + 'or name another one as "python" in plugins/valuetracker/config.json.'
                : 'See SillyTavern\'s console for the reason.',
            reason: error.code === 'ENOENT' || error.code === 'EACCES' ? 'python_missing' : 'ended',
        };
    }
    const words = said.filter((line) => /^(error|hint): |Error: |No module named/.test(line)).join(' ') || said.at(-1) || '';
    if (code === IN_USE) {
        return {
            sentence: `Another server is using ${dataDir}. ${words}`,
            hint: 'Another Value Tracker server is using the data directory, perhaps that of a second SillyTavern. '
                + 'Stop it, or share it: write its address as "attach" and its VALUETRACKER_BRIDGE_SECRET '
                + 'as "secret" into plugins/valuetracker/config.json.',
            reason: 'in_use',
        };
    }
    if (said.some((line) => /No module named '?valuetracker/.test(line))) {
        return {
            sentence: `${python} has no Value Tracker.`,
            hint: 'The Python that installed Value Tracker no longer has it. Install it there again, '
                + 'or run `valuetracker sillytavern install` with the Python that has it.',
            reason: 'package_missing',
        };
    }
    return {
        sentence: `The server ended with ${signal ?? `code ${code}`}. ${words}`,
        hint: 'The server is being restarted; try again in a moment. If this continues, see SillyTavern\'s console for the reason.',
        reason: 'ended',
    };
}

module.exports = { describe, startFailure };
