'use strict';
/**
 * Prepares the body of a request for the server.
 *
 * SillyTavern parses `application/json` before a plugin gets the request, so the body is written again,
 * which rounds integers above 2^53. Every other type is still a stream and is forwarded byte for byte,
 * so `application/merge-patch+json`, `application/json-patch+json` and
 * `application/vnd.valuetracker+json` stay exact.
 */

const { Refusal } = require('./refusals');

/**
 * @typedef {object} Body
 * @property {Buffer} [bytes] The whole body; it can be sent again.
 * @property {boolean} [stream] True: pipe it from the request; it can be sent once.
 * @property {string} [length] The `Content-Length` of the request.
 */

/**
 * @param {any} req
 * @returns {Body}
 */
function readBody(req) {
    const type = String(req.headers['content-type'] ?? '').split(';')[0].trim().toLowerCase();
    // SillyTavern consumes uploads: there is nothing left to forward.
    if (type.startsWith('multipart/')) {
        throw unsupported('multipart forms');
    }
    if (req._body === true) {
        if (type !== 'application/json') {
            throw unsupported('forms');
        }
        return isMissing(req) ? {} : { bytes: serialise(req.body) };
    }
    const length = req.headers['content-length'];
    if (req.headers['transfer-encoding'] === undefined && (length === undefined || Number(length) === 0)) {
        return length === undefined ? {} : { length: '0' };
    }
    return { stream: true, length: req.headers['transfer-encoding'] === undefined ? length : undefined };
}

/**
 * Return true if the request had no body. SillyTavern parses an empty body as `{}`, and an empty object may
 * mean to clear everything. So `{}` counts only if the headers prove that there were bytes.
 * @param {any} req
 */
function isMissing(req) {
    const empty = req.body !== null && typeof req.body === 'object' && !Array.isArray(req.body)
        && Object.keys(req.body).length === 0;
    const coded = !/^(identity)?$/i.test(String(req.headers['content-encoding'] ?? '').trim());
    return empty && (coded || !(Number(req.headers['content-length']) > 0));
}

/** @param {string} what */
function unsupported(what) {
    return new Refusal(415, 'unsupported_media_type', `Value Tracker takes no ${what}.`, 'Send JSON.');
}

/** @param {unknown} value */
function serialise(value) {
    try {
        return Buffer.from(JSON.stringify(value) ?? '');
    } catch (error) {
        if (error instanceof RangeError && /stack/i.test(error.message)) {
            throw new Refusal(400, 'too_deep', 'The JSON is nested too deeply.');
        }
        throw new Refusal(413, 'body_too_large', 'The body is too large.');
    }
}

module.exports = { readBody };
