'use strict';
/**
 * The host names of this SillyTavern, besides IP addresses and `localhost`.
 */

const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { createRequire } = require('node:module');

/**
 * @param {import('./settings').Paths} paths
 * @returns {string[]}
 */
function knownHosts(paths) {
    return [...machineNames(os.hostname()), ...launchName(), ...whitelisted(paths)];
}

/**
 * Return this machine's own name, alone and with `.local`. Names of one label and `.local` names are in
 * no public DNS, so no other site can have them.
 * @param {string} hostname
 */
function machineNames(hostname) {
    const name = hostname.toLowerCase().replace(/\.local$/, '');
    return /^[a-z0-9_-]+$/.test(name) ? [name, `${name}.local`] : [];
}

/** Return the name under which SillyTavern opens its own page. */
function launchName() {
    const name = /** @type {any} */ (globalThis).COMMAND_LINE_ARGS?.browserLaunchHostname;
    return typeof name === 'string' && name !== 'auto' ? [name] : [];
}

/**
 * Return `hostWhitelist.hosts` of SillyTavern's configuration; `.name` includes subdomains. The file is
 * read with SillyTavern's own YAML parser. Without the parser, only `config.json` of this plugin counts.
 * @param {import('./settings').Paths} paths
 */
function whitelisted(paths) {
    try {
        const variable = process.env.SILLYTAVERN_HOSTWHITELIST_HOSTS;
        const file = /** @type {any} */ (globalThis).COMMAND_LINE_ARGS?.configPath ?? 'config.yaml';
        const hosts = variable !== undefined
            ? JSON.parse(variable)
            : createRequire(path.join(paths.server, 'server.js'))('yaml')
                .parse(fs.readFileSync(path.resolve(paths.server, file), 'utf8'))?.hostWhitelist?.hosts;
        return Array.isArray(hosts) ? hosts.filter((each) => typeof each === 'string') : [];
    } catch {
        return [];
    }
}

module.exports = { knownHosts, machineNames };
