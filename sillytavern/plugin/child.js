'use strict';
/**
 * The Python server as a child process: started, waited for, and started again when it has ended.
 *
 * Its standard input is a pipe that nothing is written to. The server stops when the pipe closes.
 * That also happens when SillyTavern is killed, so no server is left running.
 */

const crypto = require('node:crypto');
const { spawn } = require('node:child_process');
const { serverEnvironment } = require('./environment');
const { eachLine } = require('./lines');
const { away } = require('./refusals');
const { readSettings, SettingsError } = require('./settings');
const { describe, startFailure } = require('./failures');

const READY = /^Value Tracker listening on http:\/\/([^/\s]+):(\d+)$/;
const LAST_LINES = 20;
// After more failures in a row than this, requests no longer wait for the next start.
const QUICK_RESTARTS = 2;

// Milliseconds.
const TIMES = {
    // A longer start counts as failed. The time is long because files may have to be upgraded.
    ready: 120_000,
    // The pause between two starts; it doubles with each failure, up to `longestPause`.
    pause: 250,
    longestPause: 30_000,
    // A server that ran this long counts as healthy: the count of failures starts again.
    healthy: 10_000,
    // How long SillyTavern's start waits for the server, so that the server answers when the page opens.
    first: 10_000,
    // How long a request waits for a server that is being restarted.
    hold: 5_000,
    // How long the server may take to stop.
    stop: 3_000,
};

/** @typedef {{host: string, port: number, secret: string}} Target */

class Child {
    #state = /** @type {'away' | 'starting' | 'ready' | 'stopped'} */ ('away');
    /** @type {import('node:child_process').ChildProcess | null} */
    #process = null;
    /** @type {Target | null} */
    #target = null;
    #failures = 0;
    /** True if the server is expected to be ready soon. */
    #hopeful = true;
    #why = { hint: 'The server is starting; try again in a moment.', reason: 'starting' };
    /** @type {Set<() => void>} */
    #waiting = new Set();
    /** @type {NodeJS.Timeout | undefined} */
    #timer;

    /**
     * @param {import('./settings').Paths} paths
     * @param {import('./log').Log} log
     * @param {object} [more]
     * @param {Partial<typeof TIMES>} [more.times]
     * @param {(settings: import('./settings').Settings) => Promise<void>} [more.prepare] Before each start.
     * @param {(target: Target) => Promise<void>} [more.settle] After the server is ready.
     */
    constructor(paths, log, { times = {}, prepare = async () => {}, settle = async () => {} } = {}) {
        this.paths = paths;
        this.log = log;
        this.times = { ...TIMES, ...times };
        this.prepare = prepare;
        this.settle = settle;
    }

    get pid() {
        return this.#process?.pid;
    }

    /** Start the server and keep it running. */
    start() {
        if (this.#state === 'away') {
            this.#state = 'starting';
            this.#attempt().catch((error) => this.#failed(startFailure(error)));
        }
    }

    /**
     * Return the address of the server. Wait a little if it is starting, but not if it keeps failing.
     * @returns {Promise<Target>}
     */
    async available() {
        if (!this.#target) {
            await this.ready(this.times.hold);
        }
        if (!this.#target) {
            const { hint, reason } = this.#state === 'stopped' ? { hint: 'SillyTavern is stopping.', reason: 'ended' } : this.#why;
            throw away(hint, false, reason);
        }
        return this.#target;
    }

    /**
     * Wait until the server is ready, is not expected soon, or the time has passed.
     * @param {number} milliseconds
     */
    ready(milliseconds) {
        return new Promise((resolve) => {
            const done = () => {
                clearTimeout(timer);
                this.#waiting.delete(done);
                resolve(undefined);
            };
            const timer = setTimeout(done, milliseconds);
            this.#waiting.add(done);
            if (this.#target || !this.#hopeful) {
                done();
            }
        });
    }

    /** Stop the server: close its input, send SIGTERM, and kill it if it does not stop in time. */
    async stop() {
        this.#state = 'stopped';
        this.#target = null;
        this.#hopeful = false;
        clearTimeout(this.#timer);
        this.#wake();
        const child = this.#process;
        if (child?.pid === undefined || child.exitCode !== null || child.signalCode !== null) {
            return;
        }
        await new Promise((resolve) => {
            const timer = setTimeout(() => {
                this.log.warn('the server did not stop in time and was killed');
                signal(child, 'SIGKILL');
                resolve(undefined);
            }, this.times.stop);
            child.once('exit', () => {
                clearTimeout(timer);
                resolve(undefined);
            });
            child.stdin?.end();
            // On Windows every signal kills at once: there, closing the input is enough.
            if (process.platform !== 'win32') {
                signal(child, 'SIGTERM');
            }
        });
    }

    async #attempt() {
        // Read the settings again each time: a new installation or a changed file may have fixed the problem.
        const settings = readSettings(this.paths);
        if (settings.attach) {
            throw new SettingsError('config.json names a server to attach to.', 'Restart SillyTavern to use that server.');
        }
        if (!settings.python) {
            throw new SettingsError(
                'installed.json does not name a Python.',
                'Run `valuetracker sillytavern install` for this SillyTavern again.',
            );
        }
        try {
            await this.prepare(settings);
        } catch (error) {
            this.log.error('could not prepare the data directory:', /** @type {Error} */ (error).message);
        }
        if (this.#state !== 'stopped') {
            this.#spawn(settings.python, settings.dataDir);
        }
    }

    /** @param {string} python @param {string} dataDir */
    #spawn(python, dataDir) {
        const secret = crypto.randomBytes(32).toString('base64url');
        /** @type {string[]} */
        const said = [];
        const child = spawn(
            python,
            // -P: do not import modules from SillyTavern's folder.
            ['-P', '-m', 'valuetracker', 'serve', '--host', '127.0.0.1', '--port', '0', '--data-dir', dataDir],
            {
                cwd: this.paths.server,
                stdio: ['pipe', 'pipe', 'pipe'],
                windowsHide: true,
                env: serverEnvironment(this.paths, secret),
            },
        );
        this.#process = child;
        const started = Date.now();
        clearTimeout(this.#timer);
        this.#timer = setTimeout(() => {
            said.push('error: The server was not ready in time.');
            signal(child, 'SIGKILL');
        }, this.times.ready);

        let over = false;
        const ended = (/** @type {import('./failures').Failure} */ failure) => {
            if (over) {
                return;
            }
            over = true;
            const lived = this.#target?.secret === secret;
            if (lived && Date.now() - started >= this.times.healthy) {
                this.#failures = 0;
            }
            this.#failed(failure, lived);
        };
        child.stdin.on('error', () => {});
        child.on('error', (error) => ended(startFailure(error, python)));
        child.on('exit', (code, signal) => ended({ code, signal, said, python, dataDir }));
        eachLine(child.stderr, (line) => {
            said.push(line);
            said.splice(0, said.length - LAST_LINES);
            this.log.info(line);
        });
        eachLine(child.stdout, (line) => {
            const found = READY.exec(line);
            if (!found || this.#state !== 'starting' || over) {
                this.log.info(line);
                return;
            }
            clearTimeout(this.#timer);
            this.#state = 'ready';
            this.#target = { host: found[1], port: Number(found[2]), secret };
            this.log.info(`the server is ready (process ${child.pid}, data in ${dataDir})`);
            this.#wake();
            this.settle(this.#target).catch((error) => this.log.warn(error.message));
        });
    }

    /** @param {import('./failures').Failure} failure @param {boolean} [lived] */
    #failed(failure, lived = false) {
        clearTimeout(this.#timer);
        this.#target = null;
        if (this.#state === 'stopped') {
            return;
        }
        this.#state = 'starting';
        this.#failures += 1;
        this.#hopeful = lived && this.#failures <= QUICK_RESTARTS;
        if (!this.#hopeful) {
            this.#wake();
        }
        const pause = Math.min(this.times.pause * 2 ** (this.#failures - 1), this.times.longestPause);
        this.#why = describe(failure);
        this.#timer = setTimeout(() => {
            // Described again here: by now all output of the process has been read.
            const { sentence, hint, reason } = describe(failure);
            this.#why = { hint, reason };
            this.log.error(`${sentence} ${hint} (start ${this.#failures + 1} now)`);
            this.#attempt().catch((error) => this.#failed(startFailure(error)));
        }, pause);
    }

    #wake() {
        for (const done of [...this.#waiting]) {
            done();
        }
    }
}

/** @param {import('node:child_process').ChildProcess} child @param {NodeJS.Signals} name */
function signal(child, name) {
    try {
        child.kill(name);
    } catch {
        // The process cannot be signalled; its input is closed already.
    }
}

module.exports = { Child };
