'use strict';
/**
 * Forwards requests to the server and returns its answers. It knows no endpoint by name.
 */

const http = require('node:http');
const { setTimeout: sleep } = require('node:timers/promises');
const { outgoing, returned } = require('./headers');
const { Refusal, away, refuse } = require('./refusals');

const PREFIX = '/api/plugins/valuetracker';
// The server keeps an idle connection for 75 s. Closing it earlier here avoids sending into a
// connection that the server is closing.
const IDLE_MS = 30_000;
const ATTEMPTS = 4;
const RESETS = new Set(['ECONNRESET', 'EPIPE']);

/**
 * The result of an attempt that got no answer.
 * @typedef {object} Attempt
 * @property {boolean} unsent There was no connection.
 * @property {boolean} stale The connection had been used before and was reset before any answer.
 */

class Forwarder {
    // Not the global agents: they may use a proxy.
    #agent = new http.Agent({ keepAlive: true, timeout: IDLE_MS });
    #fresh = new http.Agent({ keepAlive: false });

    /**
     * @param {() => Promise<import('./child').Target>} available
     */
    constructor(available) {
        this.available = available;
    }

    /**
     * @param {import('node:http').IncomingMessage} req
     * @param {import('node:http').ServerResponse} res
     * @param {import('./identity').Person} person
     * @param {import('./body').Body} body
     */
    async forward(req, res, person, body) {
        const path = PREFIX + rawPath(req);
        for (let attempt = 1; !res.destroyed; attempt += 1) {
            const target = await this.available();
            const agent = attempt === 1 ? this.#agent : this.#fresh;
            const failed = await this.#send(req, res, {
                host: target.host,
                port: target.port,
                method: req.method,
                path,
                headers: outgoing(req.rawHeaders, body, person, target.secret),
                agent,
            }, body);
            if (!failed || res.destroyed) {
                return;
            }
            if (attempt === ATTEMPTS || !mayRepeat(req, body, failed)) {
                throw failed.unsent
                    ? away('The server does not answer; try again in a moment.', false, 'unreachable')
                    : away('The server ended before it answered. The request may have been applied: read before you send it again.', true);
            }
            // It takes a moment to notice that the process has ended.
            await sleep(50 * attempt);
        }
    }

    /**
     * Send a request of the plugin itself.
     * @param {import('./child').Target} target
     * @param {string} method
     * @param {string} path
     * @param {import('./identity').Person} person
     * @param {unknown} value
     * @returns {Promise<{status: number, text: string}>}
     */
    ask(target, method, path, person, value) {
        const body = { bytes: Buffer.from(JSON.stringify(value)) };
        return new Promise((resolve, reject) => {
            const out = http.request({
                host: target.host,
                port: target.port,
                method,
                path: PREFIX + path,
                headers: outgoing([], body, person, target.secret),
                agent: this.#fresh,
            }, (incoming) => {
                let text = '';
                incoming.setEncoding('utf8');
                incoming.on('data', (piece) => { text += piece; });
                incoming.on('error', reject);
                incoming.on('end', () => resolve({ status: incoming.statusCode ?? 0, text }));
            });
            out.on('error', reject);
            out.end(body.bytes);
        });
    }

    close() {
        this.#agent.destroy();
        this.#fresh.destroy();
    }

    /**
     * @param {import('node:http').IncomingMessage} req
     * @param {import('node:http').ServerResponse} res
     * @param {import('node:http').RequestOptions} options
     * @param {import('./body').Body} body
     * @returns {Promise<Attempt | null>} null once an answer has started.
     */
    #send(req, res, options, body) {
        return new Promise((resolve, reject) => {
            let out;
            try {
                out = http.request(options);
            } catch {
                reject(new Refusal(400, 'malformed_request', 'The request has bytes that HTTP does not allow.'));
                return;
            }
            let connected = false;
            let answered = false;
            let heard = 0;
            /** @type {import('node:net').Socket | undefined} */
            let socket;
            // The client has disconnected. (`req` closes as soon as its body has been read, so listen to `res`.)
            const abandon = () => out.destroy();
            res.once('close', abandon);
            out.on('socket', (given) => {
                socket = given;
                heard = given.bytesRead;
                const begin = () => {
                    connected = true;
                    if (body.stream) {
                        // Wait for the connection: until then the body can still be sent elsewhere.
                        req.pipe(out);
                    }
                };
                // A reused connection does not emit `connect` again.
                given.connecting ? given.once('connect', begin) : begin();
            });
            out.on('response', (incoming) => {
                answered = true;
                resolve(null);
                try {
                    relay(incoming, res, () => {
                        res.off('close', abandon);
                        // The server answered before it read everything (for example: too large). Discard the rest.
                        req.unpipe(out);
                        req.resume();
                    });
                } catch (error) {
                    refuse(res, error);
                    incoming.destroy();
                }
            });
            const fail = (/** @type {NodeJS.ErrnoException | undefined} */ error) => {
                if (answered) {
                    return;
                }
                res.off('close', abandon);
                req.unpipe(out);
                resolve({
                    unsent: !connected,
                    stale: out.reusedSocket && RESETS.has(error?.code ?? '') && socket?.bytesRead === heard,
                });
            };
            out.on('error', fail);
            // `close` also comes without an error, for example if the answer offers an upgrade.
            out.on('close', () => fail(undefined));
            if (!body.stream) {
                out.end(body.bytes);
            }
        });
    }
}

/**
 * Return the path below the mount as it was sent. (`req.url` loses one of two slashes.)
 * @param {any} req
 * @returns {string}
 */
function rawPath(req) {
    const whole = String(req.originalUrl ?? req.url);
    // An absolute target names a host that the guard has not checked.
    if (!whole.startsWith('/')) {
        throw new Refusal(400, 'malformed_request', 'The request does not name a path.');
    }
    return whole.slice((req.baseUrl ?? '').length);
}

/**
 * Return true if a request can be sent again: it was never sent, or the server had closed the idle
 * connection and applying the request twice does no harm.
 * @param {import('node:http').IncomingMessage} req
 * @param {import('./body').Body} body
 * @param {Attempt} failed
 */
function mayRepeat(req, body, failed) {
    const harmless = req.method === 'GET' || req.method === 'HEAD' || req.headers['idempotency-key'] !== undefined;
    return failed.unsent || (failed.stale && harmless && !body.stream);
}

/**
 * @param {import('node:http').IncomingMessage} incoming
 * @param {import('node:http').ServerResponse} res
 * @param {() => void} done
 */
function relay(incoming, res, done) {
    incoming.on('error', () => {});
    incoming.on('close', () => {
        done();
        // The server ended in the middle of its answer. Destroy the response: a partial answer must not look complete.
        if (!incoming.complete && !res.writableEnded) {
            res.destroy();
        }
    });
    if (res.destroyed || res.headersSent) {
        incoming.destroy();
        return;
    }
    const status = incoming.statusCode ?? 0;
    if (status < 200 || status > 599) {
        throw away('The server sent an invalid answer.', true);
    }
    res.statusCode = status;
    returned(incoming.rawHeaders, res);
    // An answer that is not SillyTavern's own, even if it is not Value Tracker's either.
    res.setHeader('x-vt-plugin', '1');
    const live = /^text\/event-stream/i.test(incoming.headers['content-type'] ?? '');
    if (live) {
        // Without this, compression in SillyTavern or a proxy would hold events back until the end.
        res.setHeader('cache-control', 'no-cache, no-transform');
        res.setHeader('x-accel-buffering', 'no');
        res.flushHeaders();
    }
    incoming.pipe(res);
    if (live) {
        incoming.on('data', () => /** @type {any} */ (res).flush?.());
    }
}

module.exports = { Forwarder };
