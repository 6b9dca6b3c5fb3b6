'use strict';
/**
 * Selects the headers that are sent to the server and those that are returned.
 *
 * The user is set only here. Headers of a request that claim a user are dropped, and so are those meant
 * for SillyTavern (cookies, CSRF token, login).
 */

const HOP_BY_HOP = [
    'connection', 'keep-alive', 'proxy-authenticate', 'proxy-authorization', 'proxy-connection',
    'te', 'trailer', 'trailers', 'transfer-encoding', 'upgrade', 'http2-settings',
];
const NOT_SENT = new Set([
    ...HOP_BY_HOP,
    'accept-encoding', 'authorization', 'content-length', 'cookie', 'cookie2', 'expect', 'forwarded',
    'host', 'origin', 'referer', 'via', 'x-csrf-token', 'x-real-ip', 'cf-connecting-ip', 'true-client-ip',
]);
const NOT_SENT_PREFIXES = ['x-vt-', 'x-forwarded-', 'sec-', 'proxy-'];
const NOT_RETURNED = new Set([...HOP_BY_HOP, 'date', 'server', 'set-cookie', 'set-cookie2']);
const NOT_RETURNED_PREFIXES = ['access-control-', 'x-vt-', 'proxy-'];

/** @typedef {Record<string, string | number | string[]>} Headers */

/**
 * Return the headers without those of one connection: hop-by-hop headers, and those that `Connection` names.
 * @param {string[]} raw As Node gives them: name, value, name, value.
 * @param {Set<string>} dropped
 * @param {string[]} prefixes
 */
function kept(raw, dropped, prefixes) {
    /** @type {Map<string, string[]>} */
    const found = new Map();
    for (let index = 0; index + 1 < raw.length; index += 2) {
        const name = raw[index].toLowerCase();
        found.set(name, [...(found.get(name) ?? []), raw[index + 1]]);
    }
    const named = (found.get('connection') ?? []).join(',').toLowerCase().split(',').map((name) => name.trim());
    for (const name of [...found.keys()]) {
        if (dropped.has(name) || named.includes(name) || prefixes.some((prefix) => name.startsWith(prefix))) {
            found.delete(name);
        }
    }
    return found;
}

/**
 * Return the headers of the request to the server.
 * @param {string[]} raw
 * @param {import('./body').Body} body
 * @param {import('./identity').Person} person
 * @param {string} secret
 * @returns {Headers}
 */
function outgoing(raw, body, person, secret) {
    const found = kept(raw, NOT_SENT, NOT_SENT_PREFIXES);
    /** @type {Headers} */
    const headers = Object.create(null);
    for (const [name, values] of found) {
        // Repeated headers stay repeated: the server refuses them where only one is allowed.
        headers[name] = values.length === 1 ? values[0] : values;
    }
    if (!body.stream) {
        // The body was written again as plain UTF-8: the original encoding no longer applies.
        delete headers['content-encoding'];
    }
    if (body.bytes) {
        if (!Array.isArray(headers['content-type'])) {
            headers['content-type'] = 'application/json';
        }
        headers['content-length'] = body.bytes.length;
    } else if (body.length !== undefined) {
        headers['content-length'] = body.length;
    } else if (body.stream) {
        headers['transfer-encoding'] = 'chunked';
    }
    headers['x-vt-secret'] = secret;
    headers['x-vt-user'] = person.handle;
    headers['x-vt-admin'] = String(person.admin);
    return headers;
}

/**
 * Copy the headers of the server's answer.
 * @param {string[]} raw
 * @param {import('node:http').ServerResponse} res
 */
function returned(raw, res) {
    for (const [name, values] of kept(raw, NOT_RETURNED, NOT_RETURNED_PREFIXES)) {
        const before = name === 'vary' ? res.getHeader('vary') : undefined;
        const value = values.length === 1 ? values[0] : values;
        try {
            res.setHeader(name, before ? [String(before), ...values].join(', ') : value);
        } catch {
            // HTTP does not allow this value: drop the header and return the rest.
        }
    }
}

module.exports = { outgoing, returned };
