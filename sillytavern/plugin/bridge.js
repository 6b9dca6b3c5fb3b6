'use strict';
/**
 * Puts the parts together: guard, client file, identity, body, forward.
 *
 * An uncaught error in a plugin stops all of SillyTavern, so `handle`, `start` and `stop` never throw.
 */

const { Adoption } = require('./adopt');
const { readBody } = require('./body');
const { Child } = require('./child');
const { isClientFile, sendClientFile } = require('./clientfile');
const { Forwarder } = require('./forward');
const { guard } = require('./guard');
const { knownHosts } = require('./hosts');
const { OWNER, identify } = require('./identity');
const { log: ownLog } = require('./log');
const { away, refuse } = require('./refusals');
const { SettingsError, findPaths, readSettings } = require('./settings');

class Bridge {
    /** @type {import('./child').Child | null} */
    #child = null;
    /** @type {import('./guard').Allowed} */
    #allowed = { hosts: [], origins: [] };
    #available = async () => {
        throw away('The server is starting; try again in a moment.', false, 'starting');
    };

    /**
     * @param {string} folder The folder of the plugin.
     * @param {object} [more]
     * @param {import('./log').Log} [more.log]
     * @param {object} [more.times] See `Child`.
     */
    constructor(folder, { log = ownLog, times = {} } = {}) {
        this.folder = folder;
        this.log = log;
        this.times = times;
        this.forwarder = new Forwarder(() => this.#available());
    }

    get pid() {
        return this.#child?.pid;
    }

    async start() {
        try {
            const paths = findPaths(this.folder);
            const settings = this.#read(paths);
            this.#allowed = {
                hosts: [...knownHosts(paths), ...settings?.allowedHosts ?? []],
                origins: settings?.allowedOrigins ?? [],
            };
            if (settings?.attach) {
                const { host, port, url } = settings.attach;
                this.#available = async () => ({ host, port, secret: settings.secret });
                this.log.info(`using the server at ${url}`);
                return;
            }
            await this.#startChild(paths);
        } catch (error) {
            this.log.error('could not start:', /** @type {Error} */ (error).stack);
        }
    }

    async stop() {
        try {
            await this.#child?.stop();
            this.forwarder.close();
        } catch (error) {
            this.log.error('could not stop:', /** @type {Error} */ (error).stack);
        }
    }

    /**
     * @param {import('node:http').IncomingMessage} req
     * @param {import('node:http').ServerResponse} res
     */
    handle(req, res) {
        req.on('error', () => {});
        res.on('error', () => {});
        this.#answer(req, res).catch((error) => {
            if (error.status === undefined) {
                this.log.error('a request failed:', error.stack);
            }
            refuse(res, error);
        }).catch(() => res.destroy());
    }

    /**
     * @param {import('node:http').IncomingMessage} req
     * @param {import('node:http').ServerResponse} res
     */
    async #answer(req, res) {
        guard(req, this.#allowed);
        if (isClientFile(req)) {
            await sendClientFile(req, res, this.folder);
            return;
        }
        await this.forwarder.forward(req, res, identify(req), readBody(req));
    }

    /** @param {import('./settings').Paths} paths */
    #read(paths) {
        try {
            return readSettings(paths);
        } catch (error) {
            if (!(error instanceof SettingsError)) {
                throw error;
            }
            // The child reports the problem each time it tries to start.
            return null;
        }
    }

    /** @param {import('./settings').Paths} paths */
    async #startChild(paths) {
        /** @type {Adoption | null} */
        let adoption = null;
        const child = new Child(paths, this.log, {
            times: this.times,
            prepare: async ({ dataDir }) => {
                adoption = new Adoption(paths.server, dataDir, this.log);
                await adoption.copy();
            },
            settle: async (target) => {
                await adoption?.register((id) => this.forwarder.ask(target, 'POST', '/register', OWNER, { extensionId: id }));
            },
        });
        this.#child = child;
        this.#available = () => child.available();
        child.start();
        await child.ready(child.times.first);
    }
}

module.exports = { Bridge };
