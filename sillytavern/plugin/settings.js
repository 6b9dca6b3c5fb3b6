'use strict';
/**
 * What the plugin goes by: `installed.json`, which the installer writes (the interpreter that
 * installed it), and `config.json`, which is the person's and never overwritten.
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
 * @property {{host: string, port: number, url: string} | null} attach A running server to use instead of an own one.
 * @property {string} secret What that server has as `VALUETRACKER_BRIDGE_SECRET`.
 * @property {string} dataDir
 * @property {string | null} python
 * @property {string[]} allowedHosts
 * @property {string[]} allowedOrigins
 */

/**
 * @typedef {object} Places
 * @property {string} plugin The folder of this plugin.
 * @property {string} server SillyTavern's own: with `server.js` and `public/`.
 * @property {string} data SillyTavern's data root.
 */

/**
 * Where things are. The plugin's folder may be a link to a checkout, and SillyTavern changes
 * to its own folder when it starts.
 * @param {string} plugin
 * @returns {Places}
 */
function findPlaces(plugin) {
    const above = path.resolve(plugin, '..', '..');
    const server = [above, process.cwd()].find((each) => fs.existsSync(path.join(each, 'server.js'))) ?? above;
    const data = /** @type {any} */ (globalThis).DATA_ROOT;
    return { plugin, server, data: path.resolve(server, typeof data === 'string' && data ? data : 'data') };
}

/**
 * @param {Places} places
 * @returns {Settings}
 * @throws {SettingsError} A file that is there and cannot be used is never taken for an
 *   absent one: the data would seem to be gone.
 */
function readSettings(places) {
    const installed = readObject(path.join(places.plugin, 'installed.json'));
    const config = readObject(path.join(places.plugin, 'config.json'));
    for (const [name, value] of Object.entries(config)) {
        const kind = KINDS[/** @type {keyof typeof KINDS} */ (name)];
        const right = kind === 'list'
            ? Array.isArray(value) && value.every((each) => typeof each === 'string')
            : kind === undefined || value === null || typeof value === 'string';
        if (!right) {
            throw new SettingsError(
                `config.json: "${name}" must be ${kind === 'list' ? 'a list of texts' : 'a text'}.`,
                'Mend plugins/valuetracker/config.json.',
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
        dataDir: config.dataDir ? path.resolve(places.server, config.dataDir) : path.join(places.data, '_valuetracker'),
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
        throw new SettingsError(`${name} cannot be read.`, `Look at the permissions of plugins/valuetracker/${name}.`);
    }
    try {
        // Editors on Windows begin files with a byte order mark.
        const value = JSON.parse(text.replace(/^\ufeff/, ''));
        if (value !== null && typeof value === 'object' && !Array.isArray(value)) {
            return value;
        }
    } catch {
        // Said below.
    }
    throw new SettingsError(`${name} is not a JSON object.`, `Mend or remove plugins/valuetracker/${name}.`);
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
        // Said below.
    }
    throw new SettingsError('config.json: "attach" is not the address of a server.', 'Write it like "http://127.0.0.1:8420".');
}

module.exports = { SettingsError, findPlaces, readSettings };
