/**
 * A server, a page with an open chat, and a tracker on it.
 */

import { after } from 'node:test';

import { shared } from '../../../sillytavern/client/tavern/ids.js';
import { ValueTracker } from '../../../sillytavern/client/valuetracker.js';
import { Server } from './server.js';
import { Tavern } from './tavern.js';

/** @type {Promise<Server>|null} */
let common = null;
let count = 0;

/** One server for the tests of a file; each test has an extension of its own. */
export function commonServer() {
    common ??= Server.start();
    return common;
}

after(async () => (await common)?.remove());

/**
 * @param {import('node:test').TestContext} t
 * @param {{state?: Record<string, any>, server?: Server, options?: any, extensionId?: string, tavern?: Tavern, file?: string}} [given]
 */
export async function begin(t, { state = {}, server, options = {}, extensionId, tavern = new Tavern(), file = 'Tale' } = {}) {
    server ??= await commonServer();
    // All tests of a file share a page.
    Object.assign(shared(), { generation: null, reserved: null });
    extensionId ??= `test-${process.pid}-${++count}`;
    if (tavern.file === undefined) await tavern.open(file);
    const vt = await ValueTracker.connect({
        extensionId, url: server.url, getContext: tavern.getContext, insertionDelayMs: 5, saveMs: [0, 0], retryMs: [5, 10], probeMs: [20, 50], ...options,
    });
    t.after(() => vt.close());
    if (Object.keys(state).length) await vt.chat.edit((live) => { Object.assign(live, state); });
    return { server, tavern, vt, extensionId };
}

/**
 * Collect the arguments of an event.
 *
 * @param {ValueTracker} vt
 * @param {any} name
 */
export function heard(vt, name) {
    /** @type {any[]} */
    const list = [];
    vt.on(name, (argument) => list.push(argument));
    return list;
}

/**
 * Send a message, get a reply, and let the extension write.
 *
 * @param {Tavern} tavern
 * @param {ValueTracker} vt
 * @param {(state: any) => any} fn
 */
export async function reply(tavern, vt, fn) {
    await tavern.send('Go on.');
    await fn(vt.chat.state);
    await vt.chat.saved;
}

/**
 * Record the requests, with a way to lose answers.
 *
 * @param {import('node:test').TestContext} t
 */
export function watched(t) {
    const { fetch } = globalThis;
    /** @type {Array<{method: string, path: string, body: any, headers: Record<string, string>}>} */
    const requests = [];
    const wire = { requests, lose: (/** @type {any} */ _request) => false };
    globalThis.fetch = async (url, init = {}) => {
        const path = String(url).replace(/^.*\/api\/plugins\/valuetracker/, '');
        const request = {
            method: init.method ?? 'GET', path, body: init.body ? JSON.parse(String(init.body)) : undefined,
            headers: /** @type {any} */ (init.headers ?? {}),
        };
        if (!path.startsWith('/events')) requests.push(request);
        const answer = await fetch(url, init);
        if (wire.lose(request)) throw new TypeError('The answer was lost.');
        return answer;
    };
    t.after(() => { globalThis.fetch = fetch; });
    return wire;
}
