'use strict';
/**
 * The names under which SillyTavern is known to be opened, besides addresses and `localhost`.
 */

const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { createRequire } = require('node:module');

/**
 * @param {import('./settings').Places} places
 * @returns {string[]}
 */
function knownHosts(places) {
    return [...machineNames(os.hostname()), ...launchName(), ...whitelisted(places)];
}

/**
 * This machine's own name, alone and as its network announces it (`name.local`): names of one
 * label and `.local` are in no public DNS, so no other site can be found under them.
 * @param {string} hostname
 */
function machineNames(hostname) {
    const name = hostname.toLowerCase().replace(/\.local$/, '');
    return /^[a-z0-9_-]+$/.test(name) ? [name, `${name}.local`] : [];
}

/** The name that SillyTavern opens its own page by. */
function launchName() {
    const name = /** @type {any} */ (globalThis).COMMAND_LINE_ARGS?.browserLaunchHostname;
    return typeof name === 'string' && name !== 'auto' ? [name] : [];
}

/**
 * `hostWhitelist.hosts` of SillyTavern's configuration, in its own spelling: `.name` means
 * its subdomains, too. It is read with SillyTavern's own YAML parser; without that, names come
 * from this plugin's `config.json` only.
 * @param {import('./settings').Places} places
 */
function whitelisted(places) {
    try {
        const variable = process.env.SILLYTAVERN_HOSTWHITELIST_HOSTS;
        const file = /** @type {any} */ (globalThis).COMMAND_LINE_ARGS?.configPath ?? 'config.yaml';
        const hosts = variable !== undefined
            ? JSON.parse(variable)
            : createRequire(path.join(places.server, 'server.js'))('yaml')
                .parse(fs.readFileSync(path.resolve(places.server, file), 'utf8'))?.hostWhitelist?.hosts;
        return Array.isArray(hosts) ? hosts.filter((each) => typeof each === 'string') : [];
    } catch {
        return [];
    }
}

module.exports = { knownHosts, machineNames };
