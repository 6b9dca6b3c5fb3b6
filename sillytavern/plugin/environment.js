'use strict';
/**
 * What the server is told through its environment: the secret, that it ends with its input, and
 * which SillyTavern it belongs to. What a person has set for the latter stands.
 */

/**
 * @param {import('./settings').Places} places
 * @param {string} secret
 * @returns {NodeJS.ProcessEnv}
 */
function serverEnvironment(places, secret) {
    const { port, ssl } = /** @type {any} */ (globalThis).COMMAND_LINE_ARGS ?? {};
    return {
        SILLYTAVERN_PATH: places.server,
        VALUETRACKER_ST_DATA_ROOT: places.data,
        ...(port ? { VALUETRACKER_ST_BASE_URL: `${ssl ? 'https' : 'http'}://127.0.0.1:${port}` } : {}),
        ...process.env,
        VALUETRACKER_BRIDGE_SECRET: secret,
        VALUETRACKER_WATCH_STDIN: '1',
        // Its port can be reached by every account of this machine.
        VALUETRACKER_BRIDGE_ONLY: '1',
        // Less than the plugin waits, or it would be killed in the middle of stopping.
        VALUETRACKER_SHUTDOWN_SECONDS: '2',
    };
}

module.exports = { serverEnvironment };
