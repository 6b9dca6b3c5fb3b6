/**
 * A real Value Tracker server for a test, on a free port and a directory of its own.
 */

import { spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
const PYTHON = process.env.VALUETRACKER_TEST_PYTHON ?? join(ROOT, '.venv', 'bin', 'python');
const READY = /listening on (http:\/\/127\.0\.0\.1:(\d+))/;

export class Server {
    /** @type {import('node:child_process').ChildProcess|null} */
    #process = null;
    #port = 0;
    #directory = '';
    /** @type {string[]} */
    #options = [];

    /**
     * @param {import('node:test').TestContext} [test]
     * @param {string[]} [options] of the command
     */
    static async start(test, options = []) {
        const server = new Server();
        server.#options = options;
        server.#directory = await mkdtemp(join(tmpdir(), 'valuetracker-client-'));
        test?.after(() => server.remove());
        await server.up();
        return server;
    }

    get url() {
        return `http://127.0.0.1:${this.#port}/api/plugins/valuetracker`;
    }

    /** Start the server, on its previous port. */
    async up() {
        const args = ['-m', 'valuetracker', 'serve', '--port', String(this.#port), '--data-dir', this.#directory, ...this.#options];
        const child = spawn(PYTHON, args, { cwd: ROOT, stdio: ['ignore', 'pipe', 'pipe'] });
        this.#process = child;
        let said = '';
        await new Promise((resolve, reject) => {
            child.stdout.on('data', (data) => {
                said += data;
                const ready = READY.exec(said);
                if (ready) {
                    this.#port = Number(ready[2]);
                    resolve(undefined);
                }
            });
            child.stderr.on('data', (data) => { said += data; });
            child.on('exit', (code) => reject(new Error(`The server ended with ${code}: ${said}`)));
        });
    }

    /** @param {NodeJS.Signals} [signal] */
    async down(signal = 'SIGTERM') {
        const child = this.#process;
        this.#process = null;
        if (!child || child.exitCode !== null) return;
        const ended = new Promise((resolve) => child.once('exit', resolve));
        child.removeAllListeners('exit');
        child.once('exit', () => {});
        const gone = new Promise((resolve) => child.once('close', resolve));
        child.kill(signal);
        await Promise.race([ended, gone]);
    }

    async remove() {
        await this.down('SIGKILL');
        await rm(this.#directory, { recursive: true, force: true });
    }

    /**
     * Ask the server directly, without the library.
     *
     * @param {string} extensionId
     * @param {string} path
     * @param {{method?: string, body?: any, headers?: Record<string, string>}} [init]
     */
    async ask(extensionId, path, { method = 'GET', body, headers = {} } = {}) {
        const response = await fetch(this.url + path, {
            method,
            headers: { 'x-extension-id': extensionId, 'content-type': 'application/json', ...headers },
            body: body === undefined ? undefined : JSON.stringify(body),
        });
        return await response.json();
    }
}

/**
 * Waits for a condition, up to a minute.
 *
 * @template T
 * @param {() => T|Promise<T>} condition
 * @returns {Promise<NonNullable<T>>}
 */
export async function until(condition) {
    const end = Date.now() + 60_000;
    for (;;) {
        const value = await condition();
        if (value) return /** @type {any} */ (value);
        if (Date.now() > end) throw new Error(`In vain: ${condition}`);
        await new Promise((resolve) => setTimeout(resolve, 10));
    }
}
