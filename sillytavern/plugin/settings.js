'use strict';
/**
 * The settings of the plugin: `installed.json`, which the installer writes (the interpreter that
 * installed the plugin), and `config.json`, which belongs to the user and is never overwritten.
 */

const fs = require('node:fs');
const path = require('node:path');

class SettingsError extends Error {
    /** @param {string} sentence @param {string} hint */
    constructor(sentence, hint) {
        super(sentence);
        this.hint = hint;
    }
}

const KINDS = {
    attach: 'string',
    secret: 'string',
    dataDir: 'string',
    python: 'string',
    allowedHosts: 'list',
    allowedOrigins: 'list',
};

/**
 * @typedef {object} Settings
 * @property {{host: string, port: number, url: string} | null} attach A running server to use instead of starting one.
 * @property {string} secret The `VALUETRACKER_BRIDGE_SECRET` of that server.
 * @property {string} dataDir
 * @property {string | null} python
 * @property {string[]} allowedHosts
 * @property {string[]} allowedOrigins
 */

/**
 * @typedef {object} Paths
 * @property {string} plugin The folder of this plugin.
 * @property {string} server The folder of SillyTavern, with `server.js` and `public/`.
 * @property {string} data The data root of SillyTavern.
 */

/**
 * Find the folders. The plugin's folder may be a link to a checkout; then the working directory counts,
 * because SillyTavern changes to its own folder when it starts.
 * @param {string} plugin
 * @returns {Paths}
 */
function findPaths(plugin) {
    const above = path.resolve(plugin, '..', '..');
    const server = [above, process.cwd()].find((each) => fs.existsSync(path.join(each, 'server.js'))) ?? above;
    const data = /** @type {any} */ (globalThis).DATA_ROOT;
    return { plugin, server, data: path.resolve(server, typeof data === 'string' && data ? data : 'data') };
}

/**
 * @param {Paths} paths
 * @returns {Settings}
 * @throws {SettingsError} A file that exists but cannot be used is never treated as missing:
 *   another data directory would be used, and the data would seem to be lost.
 */
function readSettings(paths) {
    const installed = readObject(path.join(paths.plugin, 'installed.json'));
    const config = readObject(path.join(paths.plugin, 'config.json'));
    for (const [name, value] of Object.entries(config)) {
        const kind = KINDS[/** @type {keyof typeof KINDS} */ (name)];
        const right = kind === 'list'
            ? Array.isArray(value) && value.every((each) => typeof each === 'string')
            : kind === undefined || value === null || typeof value === 'string';
        if (!right) {
            throw new SettingsError(
                `config.json: "${name}" must be ${kind === 'list' ? 'a list of strings' : 'a string'}.`,
                'Correct plugins/valuetracker/config.json.',
            );
        }
    }
    const attach = config.attach ? parseAttach(config.attach) : null;
    if (attach && !config.secret) {
        throw new SettingsError(
            'config.json: "attach" needs a "secret".',
            'Start that server with VALUETRACKER_BRIDGE_SECRET and write the same text as "secret" into '
                + 'plugins/valuetracker/config.json: without it, it cannot tell SillyTavern\'s users apart.',
        );
    }
    return {
        attach,
        secret: config.secret ?? '',
        dataDir: config.dataDir ? path.resolve(paths.server, config.dataDir) : path.join(paths.data, '_valuetracker'),
        python: config.python || (typeof installed.python === 'string' && installed.python) || null,
        allowedHosts: config.allowedHosts ?? [],
        allowedOrigins: config.allowedOrigins ?? [],
    };
}

/** @param {string} file @returns {Record<string, any>} */
function readObject(file) {
    const name = path.basename(file);
    let text;
    try {
        text = fs.readFileSync(file, 'utf8');
    } catch (error) {
        if (/** @type {NodeJS.ErrnoException} */ (error).code === 'ENOENT') {
            return {};
        }
        throw new SettingsError(`${name} cannot be read.`, `Check the permissions of plugins/valuetracker/${name}.`);
    }
    try {
        // Editors on Windows may start a file with a byte order mark.
        const value = JSON.parse(text.replace(/^\ufeff/, ''));
        if (value !== null && typeof value === 'object' && !Array.isArray(value)) {
            return value;
        }
    } catch {
        // Reported below.
    }
    throw new SettingsError(`${name} is not a JSON object.`, `Correct or remove plugins/valuetracker/${name}.`);
}

/** @param {string} text */
function parseAttach(text) {
    try {
        const url = new URL(text);
        if (url.protocol === 'http:' && !url.username && url.pathname === '/' && !url.search) {
            const host = url.hostname.replace(/^\[|\]$/g, '');
            return { host, port: Number(url.port || 80), url: url.origin };
        }
    } catch {
        // Reported below.
    }
    throw new SettingsError('config.json: "attach" is not the address of a server.', 'Write it like "http://127.0.0.1:8420".');
}

module.exports = { SettingsError, findPaths, readSettings };
