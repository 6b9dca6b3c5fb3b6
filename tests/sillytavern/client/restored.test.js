/**
 * The server restores a backup while a page has the chat open.
 */

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { begin, heard } from './begin.js';
import { Server, until } from './server.js';

/**
 * Begin a job, and wait until it has ended.
 *
 * @param {Server} server
 * @param {string} path
 * @param {any} [body]
 */
async function done(server, path, body = {}) {
    const { job } = await server.ask('admin', path, { method: 'POST', body });
    /** @type {any} */
    let ended;
    await until(async () => {
        ended = await server.ask('admin', `/jobs/${job}`);
        return ended.status !== 'running';
    });
    assert.equal(ended.status, 'done', JSON.stringify(ended.error));
    return ended.result;
}

test('the page goes on with what was restored', async (t) => {
    const { server, vt, tavern, extensionId } = await begin(t, { state: { hp: 50 } });
    await vt.chat.saved;
    const errors = heard(vt, 'error');
    const backup = await done(server, '/backup');
    await vt.chat.edit((state) => { state.hp = 60; });

    await done(server, `/backup/${backup.name}/restore`, { extensionId, force: true });

    await until(() => vt.chat.state.hp === 50);
    // Its own writes, the chain of its messages, and the writes of others are of the new incarnation.
    await vt.chat.edit((state) => { state.hp -= 1; });
    await tavern.send('Hello');
    const data = `/chats/${encodeURIComponent(vt.chat.id)}/data`;
    assert.equal((await server.ask(extensionId, data)).hp, 49);
    await server.ask(extensionId, data, { method: 'PUT', body: { key: 'hp', value: 7 } });
    await until(() => vt.chat.state.hp === 7);
    assert.match(String((await server.ask(extensionId, '/changes')).next), /\.1$/);
    assert.equal(errors.length, 0);
});
