/**
 * Series, processed ids and operations of a chat.
 *
 * Each method calls one route. The session checks, orders and sends the calls.
 */

import { ValueTrackerError } from '../errors.js';
import { path } from '../sync/transport.js';

/** @typedef {import('../state/values.js').WriteOptions} WriteOptions */
/** @typedef {import('../sync/session.js').Session} Session */
/** @typedef {{at?: string|number}} Past a revision, a time, or `message:<id>` */

/** Numbered versions of one thing. */
export class Series {
    #session;
    #path;

    /**
     * @param {Session} session
     * @param {string} name
     */
    constructor(session, name) {
        this.#session = session;
        this.#path = path('series', name);
    }

    /**
     * Add a version and make it the current one.
     *
     * @param {any} content
     * @param {Record<string, any>} [meta]
     * @param {WriteOptions} [options]
     * @returns {Promise<{version: number}>}
     */
    add(content, meta = {}, options) {
        return this.#session.write('POST', this.#path, { ...meta, content }, options);
    }

    /**
     * @param {Past} [past]
     * @returns {Promise<{currentVersion: number|null, versions: any[]}>}
     */
    list({ at } = {}) {
        return this.#session.read(this.#path, { at });
    }

    /**
     * @param {Past} [past]
     * @returns {Promise<any>} the current version, or null
     */
    current({ at } = {}) {
        return orNull(this.#session.read(`${this.#path}/current`, { at }), 'version_not_found');
    }

    /**
     * @param {number} version
     * @param {Past} [past]
     * @returns {Promise<any>}
     */
    get(version, { at } = {}) {
        return this.#session.read(this.#path + path(String(version)), { at });
    }

    /**
     * @param {number} version
     * @param {WriteOptions} [options]
     * @returns {Promise<{currentVersion: number|null}>}
     */
    setCurrent(version, options) {
        return this.#session.write('PUT', `${this.#path}/current`, { version }, options);
    }

    /**
     * @param {number} version
     * @param {WriteOptions} [options]
     * @returns {Promise<{success: boolean, currentVersion: number|null}>}
     */
    remove(version, options) {
        return this.#session.write('DELETE', this.#path + path(String(version)), undefined, options);
    }

    /**
     * @param {WriteOptions} [options]
     * @returns {Promise<{clearedCount: number}>}
     */
    clear(options) {
        return this.#session.write('DELETE', this.#path, undefined, options);
    }
}

/** A set of ids that were processed. */
export class Processed {
    #session;
    #path;

    /**
     * @param {Session} session
     * @param {string} set
     */
    constructor(session, set) {
        this.#session = session;
        this.#path = path('processed', set);
    }

    /**
     * Claim ids: the caller processes those in `new`; those in `seen` are done, or claimed by another client.
     *
     * @param {string[]} ids
     * @param {{leaseMs?: number} & WriteOptions} [options]
     * @returns {Promise<{new: string[], seen: string[]}>}
     */
    claim(ids, { leaseMs, ...options } = {}) {
        return this.#session.write('POST', this.#path, leaseMs === undefined ? { ids } : { ids, leaseMs }, options);
    }

    /**
     * @param {string} id
     * @param {WriteOptions} [options]
     * @returns {Promise<{processed: boolean, already: boolean}>}
     */
    mark(id, options) {
        return this.#session.write('PUT', this.#path + path(id), undefined, options);
    }

    /**
     * @param {string} id
     * @param {Past} [past]
     * @returns {Promise<boolean>}
     */
    async has(id, { at } = {}) {
        return (await this.#session.read(this.#path + path(id), { at })).processed;
    }

    /**
     * @param {Past} [past]
     * @returns {Promise<string[]>}
     */
    async list({ at } = {}) {
        return (await this.#session.read(this.#path, { at })).ids;
    }

    /**
     * @param {string} id
     * @param {WriteOptions} [options]
     * @returns {Promise<{success: boolean}>}
     */
    forget(id, options) {
        return this.#session.write('DELETE', this.#path + path(id), undefined, options);
    }
}

/**
 * A piece of work to add to the queue.
 *
 * @typedef {object} NewOperation
 * @property {string} [id] the id of an operation that has ended can be used again
 * @property {string} type
 * @property {Record<string, any>} [data]
 * @property {number} [priority]
 * @property {string[]} [dependsOn] ids of operations that must be completed before
 * @property {number} [maxAttempts] how often it is tried before it has failed; 1 by default
 * @property {number|null} [retryAfterMs] the time between a failure and the next attempt
 * @property {boolean} [ifAbsent] true: an active one with this id is returned, with `created: false`
 */

/**
 * Queued and running operations. They are not values: a swipe changes none of them, but it cancels
 * those that were added with an anchor at what it hides.
 */
export class Operations {
    #session;

    /** @param {Session} session */
    constructor(session) {
        this.#session = session;
    }

    /**
     * Add an operation. With an anchor it is cancelled when its message or swipe is hidden.
     *
     * @param {NewOperation} operation
     * @param {WriteOptions} [options] no anchor by default
     * @returns {Promise<any>} the operation, with `created`
     */
    add(operation, { anchor = null, ...options } = {}) {
        // The server must know the message, or it could not tell when that is hidden.
        return this.#session.write('POST', '/operations', operation, { anchor, ...options }, { appends: anchor === null });
    }

    /**
     * @param {string} [status]
     * @returns {Promise<any[]>}
     */
    list(status) {
        return this.#session.read('/operations', { status });
    }

    /**
     * @param {string} id
     * @returns {Promise<any>}
     */
    get(id) {
        return this.#session.read(path('operations', id));
    }

    /**
     * @param {string} id
     * @param {{status?: string, stage?: string|null, data?: Record<string, any>, claim?: string|null}} changes
     * @returns {Promise<any>}
     */
    update(id, changes) {
        return this.#write('PATCH', path('operations', id), changes);
    }

    /**
     * Claim the next operation for `leaseMs`; null if none is waiting.
     *
     * @param {number} leaseMs
     * @param {{types?: string[]}} [which] only operations of these types
     * @returns {Promise<any>}
     */
    async claim(leaseMs, { types } = {}) {
        return (await this.#write('POST', '/operations/claim', { leaseMs, types })) ?? null;
    }

    /**
     * Prolong the lease of an operation that was claimed: it ends `leaseMs` from now.
     *
     * @param {string} id
     * @param {{claim: string, leaseMs: number}} lease
     * @returns {Promise<any>}
     */
    renew(id, { claim, leaseMs }) {
        return this.#write('POST', `${path('operations', id)}/renew`, { claim, leaseMs });
    }

    /**
     * @param {string} id
     * @param {{claim?: string|null, data?: Record<string, any>}} [about]
     * @returns {Promise<any>}
     */
    complete(id, about = {}) {
        return this.#write('POST', `${path('operations', id)}/complete`, about);
    }

    /**
     * Report a failure: the operation has failed, or is `retrying` if it has an attempt left.
     *
     * @param {string} id
     * @param {{claim?: string|null, data?: Record<string, any>}} [about]
     * @returns {Promise<any>}
     */
    fail(id, about = {}) {
        return this.#write('POST', `${path('operations', id)}/fail`, about);
    }

    /**
     * @param {string} id
     * @param {{claim?: string|null, data?: Record<string, any>}} [about]
     * @returns {Promise<any>}
     */
    cancel(id, about = {}) {
        return this.#write('POST', `${path('operations', id)}/cancel`, about);
    }

    /**
     * Return a failed operation to the queue, for one more attempt.
     *
     * @param {string} id
     * @returns {Promise<any>}
     */
    retry(id) {
        return this.#write('POST', `${path('operations', id)}/retry`, {});
    }

    /**
     * Delete an operation; those that depend on an active one are cancelled.
     *
     * @param {string} id
     * @returns {Promise<{success: boolean}>}
     */
    remove(id) {
        return this.#write('DELETE', path('operations', id), undefined);
    }

    /**
     * Have no operation of the chat claimed until `resume`.
     *
     * @returns {Promise<{paused: boolean}>}
     */
    pause() {
        return this.#write('POST', '/operations/pause', {});
    }

    /** @returns {Promise<{paused: boolean}>} */
    resume() {
        return this.#write('POST', '/operations/resume', {});
    }

    /**
     * @param {number} [maxAgeMs]
     * @returns {Promise<{removedCount: number, ids: string[]}>}
     */
    cleanup(maxAgeMs) {
        return this.#write('POST', '/operations/cleanup', maxAgeMs === undefined ? {} : { maxAgeMs });
    }

    /**
     * @param {string} method
     * @param {string} route
     * @param {any} body
     */
    #write(method, route, body) {
        return this.#session.write(method, route, body, { anchor: null });
    }
}

/**
 * @param {Promise<any>} promise
 * @param {string} code
 */
async function orNull(promise, code) {
    try {
        return await promise;
    } catch (error) {
        if (error instanceof ValueTrackerError && error.code === code) return null;
        throw error;
    }
}
