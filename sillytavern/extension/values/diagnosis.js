/**
 * Finds out why the server does not answer, or what is wrong with the installation: the plugin says in
 * which state its server is, and the server compares the versions.
 */

/**
 * @typedef {'whyPlugin'|'whyTavern'|'whyLogin'|'whyStarting'|'whyPython'|'whyPackage'|'whyInUse'|'whySettings'|'whyEnded'
 *     |'whyUnreachable'|'whyOther'|'whyDamaged'|'whyTooNew'|'whyTooOld'|'whyVersions'|'whyUpdated'} Why the name of a text
 */

/** The plugin's reasons. @type {Record<string, Why>} */
const REASONS = {
    starting: 'whyStarting', python_missing: 'whyPython', package_missing: 'whyPackage', in_use: 'whyInUse',
    settings: 'whySettings', ended: 'whyEnded', unreachable: 'whyUnreachable', other_program: 'whyOther',
};
/** Codes of the server that waiting does not mend. @type {Record<string, Why>} */
const CODES = { database_damaged: 'whyDamaged', database_too_new: 'whyTooNew', database_too_old: 'whyTooOld' };
/** Alerts of `GET /st/health` about versions that do not belong together. */
const VERSIONS = new Set(['extension_mismatch', 'plugin_mismatch', 'plugin_remote_mismatch']);

/**
 * @param {any} error of a request
 * @returns {Why|null}
 */
export function reasonOf(error) {
    if (CODES[error?.code]) return CODES[error.code];
    if (error?.code !== 'server_away') return null;
    const { status, details } = error;
    if (REASONS[details?.reason]) return REASONS[details.reason];
    if (status === 404) return 'whyPlugin';
    if (status === 401 || status === 403) return 'whyLogin';
    return status ? 'whyEnded' : 'whyTavern';
}

/**
 * Return what is wrong although the server answers: backups, and databases that are too large.
 *
 * @param {any} vt
 * @returns {Promise<Array<'backupFailed'|'backupOverdue'|'backupPartly'|'hookFailed'|'quotaReached'|'grownLarge'>>} names of texts
 */
export async function ailments(vt) {
    const { body } = await vt.request('GET', '/healthz', { once: true });
    const { error, overdue, failed, hook } = body.backup;
    const backup = error ? 'backupFailed' : overdue ? 'backupOverdue' : failed ? 'backupPartly' : hook ? 'hookFailed' : null;
    const size = body.full ? 'quotaReached' : body.large ? 'grownLarge' : null;
    return /** @type {any} */ ([backup, size].filter(Boolean));
}

export class Diagnosis {
    /** The version of the server when this page was loaded. @type {string|null} */
    #version = null;

    /**
     * @param {any} vt
     * @returns {Promise<Why|null>} null: nothing is wrong
     */
    async ask(vt) {
        try {
            const { alerts, versions } = (await vt.request('GET', '/st/health', { once: true })).body;
            const version = versions.plugin.bundled;
            this.#version ??= version;
            if (alerts.some((/** @type {string} */ alert) => VERSIONS.has(alert))) return 'whyVersions';
            return version === this.#version ? null : 'whyUpdated';
        } catch (error) {
            return reasonOf(error);
        }
    }
}
