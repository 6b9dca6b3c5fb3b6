'use strict';
/**
 * The environment of the server: the secret, the instruction to stop when its input closes, and the
 * paths and address of this SillyTavern. Variables that the user has set for the latter are kept.
 */

/**
 * @param {import('./settings').Paths} paths
 * @param {string} secret
 * @returns {NodeJS.ProcessEnv}
 */
function serverEnvironment(paths, secret) {
    const { port, ssl } = /** @type {any} */ (globalThis).COMMAND_LINE_ARGS ?? {};
    return {
        SILLYTAVERN_PATH: paths.server,
        VALUETRACKER_ST_DATA_ROOT: paths.data,
        ...(port ? { VALUETRACKER_ST_BASE_URL: `${ssl ? 'https' : 'http'}://127.0.0.1:${port}` } : {}),
        ...process.env,
        VALUETRACKER_BRIDGE_SECRET: secret,
        VALUETRACKER_WATCH_STDIN: '1',
        // Every account of this machine can reach the port, so only the bridge is answered.
        VALUETRACKER_BRIDGE_ONLY: '1',
        // Shorter than the plugin waits; otherwise the server would be killed while it stops.
        VALUETRACKER_SHUTDOWN_SECONDS: '2',
    };
}

module.exports = { serverEnvironment };
