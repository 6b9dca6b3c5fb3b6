/**
 * A server, a page with an open chat, and a tracker on it.
 */

import { after } from 'node:test';

import { ValueTracker } from '../valuetracker.js';
import { shared } from '../ids.js';
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
    const vt = await ValueTracker.connect({ extensionId, url: server.url, getContext: tavern.getContext, ...options });
    t.after(() => vt.close());
    if (Object.keys(state).length) await vt.chat.edit((live) => { Object.assign(live, state); });
    return { server, tavern, vt, extensionId };
}
