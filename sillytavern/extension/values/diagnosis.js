/**
 * Finds out why the server does not answer, or what is wrong with the installation: the plugin says in
 * which state its server is, and the server compares the versions.
 */

/**
 * @typedef {'whyPlugin'|'whyTavern'|'whyLogin'|'whyStarting'|'whyPython'|'whyPackage'|'whyInUse'|'whySettings'|'whyEnded'
 *     |'whyUnreachable'|'whyDamaged'|'whyTooNew'|'whyVersions'} Why the name of a text
 */

/** The plugin's reasons. @type {Record<string, Why>} */
const REASONS = {
    starting: 'whyStarting', python_missing: 'whyPython', package_missing: 'whyPackage', in_use: 'whyInUse',
    settings: 'whySettings', ended: 'whyEnded', unreachable: 'whyUnreachable',
};
/** Codes of the server that waiting does not mend. @type {Record<string, Why>} */
const CODES = { database_damaged: 'whyDamaged', database_too_new: 'whyTooNew' };
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
 * @param {any} vt
 * @returns {Promise<Why|null>} null: nothing is wrong
 */
export async function diagnose(vt) {
    try {
        const { body } = await vt.request('GET', '/st/health', { once: true });
        return body.alerts.some((/** @type {string} */ alert) => VERSIONS.has(alert)) ? 'whyVersions' : null;
    } catch (error) {
        return reasonOf(error);
    }
}
