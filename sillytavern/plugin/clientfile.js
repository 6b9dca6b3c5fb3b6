'use strict';
/**
 * Serves the client library to extensions that import it. The library is in the plugin's folder, so it
 * is available even while the server is away.
 */

const crypto = require('node:crypto');
const fs = require('node:fs');
const path = require('node:path');
const { Refusal } = require('./refusals');

/** `valuetracker.js`, and the modules that it imports: they are beside it, or one folder below. */
const ROUTE = /^\/client\/((?:[a-z]+\/)?[a-z]+\.js)$/;

/** @param {import('node:http').IncomingMessage} req */
function isClientFile(req) {
    return (req.method === 'GET' || req.method === 'HEAD') && ROUTE.test(req.url?.split('?')[0] ?? '');
}

/**
 * @param {import('node:http').IncomingMessage} req
 * @param {import('node:http').ServerResponse} res
 * @param {string} folder
 */
async function sendClientFile(req, res, folder) {
    let bytes;
    try {
        const [, name] = ROUTE.exec(req.url?.split('?')[0] ?? '') ?? [];
        bytes = await fs.promises.readFile(path.join(folder, 'client', name));
    } catch {
        throw new Refusal(404, 'not_found', 'The client library is not installed.', 'Run `valuetracker sillytavern install` again.');
    }
    const etag = `"${crypto.createHash('sha256').update(bytes).digest('base64url').slice(0, 22)}"`;
    res.setHeader('etag', etag);
    // Always revalidated, so that a page does not mix files of two versions.
    res.setHeader('cache-control', 'no-cache');
    res.setHeader('x-content-type-options', 'nosniff');
    if (req.headers['if-none-match'] === etag) {
        res.statusCode = 304;
        res.end();
        return;
    }
    res.statusCode = 200;
    res.setHeader('content-type', 'text/javascript; charset=utf-8');
    res.setHeader('content-length', bytes.length);
    res.end(bytes);
}

module.exports = { isClientFile, sendClientFile };
