'use strict';
/**
 * Refuses requests of other sites. Pages of this SillyTavern and programs are allowed.
 *
 * By default SillyTavern lets any page read the answers of plugins to GET (its CORS origin is `null`
 * and its host list is off), so every request is checked, with any method:
 *
 * - `Host` must be an IP address, `localhost`, this machine's own name or a name that was
 *   configured. A page whose own name points here (DNS rebinding) sends that name. An IP
 *   address cannot be redirected like this.
 * - `Origin`, if present, must be the requested host or a configured origin.
 * - `Sec-Fetch-Site` must be `same-origin` or `none`: other sites, and other ports of this
 *   machine, are refused even if the browser sends no `Origin`.
 */

const net = require('node:net');
const { Refusal } = require('./refusals');

const OWN_SITES = new Set(['same-origin', 'none']);
const DEFAULT_PORTS = { http: '80', https: '443' };
const CONFIG = 'plugins/valuetracker/config.json';

/**
 * @typedef {object} Allowed
 * @property {string[]} hosts Names, `.name` for its subdomains too, or `name:port`.
 * @property {string[]} origins `https://name[:port]`.
 */

/**
 * @param {import('node:http').IncomingMessage} req
 * @param {Allowed} allowed
 * @throws {Refusal}
 */
function guard(req, allowed) {
    const host = hostOf(req);
    if (!host || !isKnown(host, allowed.hosts)) {
        throw new Refusal(
            403,
            'host_not_allowed',
            'Value Tracker does not answer under this host name.',
            `If you open SillyTavern by this name, add it to "allowedHosts" in ${CONFIG} `
                + 'or to hostWhitelist.hosts in config.yaml, and restart SillyTavern.',
        );
    }
    const origin = req.headers.origin;
    if (origin !== undefined) {
        if (isListed(origin, allowed.origins)) {
            return;
        }
        if (!isOwn(origin, host)) {
            throw new Refusal(
                403,
                'origin_not_allowed',
                'Value Tracker does not answer pages of this origin.',
                'If SillyTavern itself is opened there (behind a proxy that changes the host), '
                    + `add the origin to "allowedOrigins" in ${CONFIG} and restart SillyTavern.`,
            );
        }
    }
    const site = req.headers['sec-fetch-site'];
    if (site !== undefined && !OWN_SITES.has(String(site))) {
        throw new Refusal(403, 'cross_site', 'Value Tracker does not answer pages of other sites.');
    }
}

/** @param {import('node:http').IncomingMessage} req */
function hostOf(req) {
    // Node keeps the first of several `Host` headers; a proxy may have used another one.
    const lines = req.rawHeaders.filter((name, index) => index % 2 === 0 && name.toLowerCase() === 'host');
    return lines.length === 1 ? parseHost(req.headers.host ?? '') : null;
}

/** @param {string} text */
function parseHost(text) {
    const found = /^(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+))(?::(\d{1,5}))?$/i.exec(text);
    if (!found) {
        return null;
    }
    const [, address, name, port = ''] = found;
    return { name: (address ?? name).toLowerCase().replace(/\.$/, ''), port, bracketed: address !== undefined };
}

/**
 * @param {NonNullable<ReturnType<typeof parseHost>>} host
 * @param {string[]} listed
 */
function isKnown(host, listed) {
    if (host.bracketed) {
        return net.isIPv6(host.name);
    }
    if (net.isIPv4(host.name) || host.name === 'localhost' || host.name.endsWith('.localhost')) {
        return true;
    }
    return listed.some((entry) => {
        const subdomains = entry.startsWith('.');
        const wanted = parseHost(subdomains ? entry.slice(1) : entry);
        if (!wanted || (wanted.port && wanted.port !== host.port)) {
            return false;
        }
        return host.name === wanted.name || (subdomains && host.name.endsWith(`.${wanted.name}`));
    });
}

/** @param {string} origin */
function parseOrigin(origin) {
    const found = /^(https?):\/\/([^/?#@\s]+)$/i.exec(origin);
    const host = found && parseHost(found[2]);
    if (!found || !host) {
        return null;
    }
    const scheme = /** @type {'http' | 'https'} */ (found[1].toLowerCase());
    return { scheme, name: host.name, port: host.port || DEFAULT_PORTS[scheme] };
}

/**
 * Return true if an origin is the requested host. The scheme is not compared: behind a proxy with TLS
 * the page is `https` but the request is not.
 * @param {string} origin
 * @param {NonNullable<ReturnType<typeof parseHost>>} host
 */
function isOwn(origin, host) {
    const found = parseOrigin(origin);
    return found !== null && found.name === host.name && found.port === (host.port || DEFAULT_PORTS[found.scheme]);
}

/** @param {string} origin @param {string[]} listed */
function isListed(origin, listed) {
    const found = parseOrigin(origin);
    return found !== null && listed.some((entry) => {
        const wanted = parseOrigin(entry.replace(/\/$/, ''));
        return wanted !== null && wanted.scheme === found.scheme && wanted.name === found.name && wanted.port === found.port;
    });
}

module.exports = { guard, parseHost, parseOrigin };
