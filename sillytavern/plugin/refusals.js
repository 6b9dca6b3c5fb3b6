'use strict';
/**
 * The errors that the plugin itself answers with, in the form of the server's errors:
 * `{"error", "code", "hint", "details"}`.
 */

class Refusal extends Error {
    /**
     * @param {number} status
     * @param {string} code Permanent; the sentence may change.
     * @param {string} sentence
     * @param {string | null} [hint] What to do next.
     * @param {object} [details]
     */
    constructor(status, code, sentence, hint = null, details = {}) {
        super(sentence);
        this.status = status;
        this.code = code;
        this.hint = hint;
        this.details = details;
    }

    get body() {
        return { error: this.message, code: this.code, hint: this.hint, details: this.details };
    }
}

/**
 * Return the error for a server that cannot be reached. `maybeApplied`: the request may have been applied.
 * @param {string} hint
 * @param {boolean} [maybeApplied]
 * @param {string} [reason] Permanent: the page shows its own sentence for it.
 */
function away(hint, maybeApplied = false, reason = undefined) {
    return new Refusal(503, 'server_away', 'The Value Tracker server is away.', hint, { maybeApplied, reason });
}

/**
 * @param {import('node:http').ServerResponse} res
 * @param {unknown} failure Details of anything but a `Refusal` are hidden.
 */
function refuse(res, failure) {
    if (res.destroyed || res.writableEnded) {
        return;
    }
    if (res.headersSent) {
        // A partial answer must not look complete.
        res.destroy();
        return;
    }
    const refusal = failure instanceof Refusal
        ? failure
        : new Refusal(500, 'internal_error', 'Something went wrong.');
    const body = Buffer.from(JSON.stringify(refusal.body));
    // SillyTavern allows `Origin: null` by default; a refused page must not read the answer.
    res.removeHeader('access-control-allow-origin');
    res.statusCode = refusal.status;
    res.setHeader('content-type', 'application/json');
    res.setHeader('content-length', body.length);
    res.setHeader('cache-control', 'no-store');
    if (refusal.status === 503) {
        res.setHeader('retry-after', '1');
    }
    res.end(body);
}

module.exports = { Refusal, away, refuse };
