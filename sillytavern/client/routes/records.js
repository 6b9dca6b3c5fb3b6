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

/** Queued and running operations. They are not values, and no swipe changes them. */
export class Operations {
    #session;

    /** @param {Session} session */
    constructor(session) {
        this.#session = session;
    }

    /**
     * @param {{id?: string, type: string, data?: Record<string, any>, priority?: number}} operation
     * @returns {Promise<any>}
     */
    add(operation) {
        return this.#write('POST', '/operations', operation);
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
     * @returns {Promise<any>}
     */
    async claim(leaseMs) {
        return (await this.#write('POST', '/operations/claim', { leaseMs })) ?? null;
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
