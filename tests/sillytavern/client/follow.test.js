/**
 * Following several extensions on one connection.
 */

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { ValueTracker } from '../../../sillytavern/client/valuetracker.js';
import { commonServer } from './begin.js';
import { Server, until } from './server.js';

let count = 0;

/**
 * A program without a page, and three extensions.
 *
 * @param {import('node:test').TestContext} t
 * @param {Server} [own] a server of the test's own
 */
async function watching(t, own) {
    const server = own ?? await commonServer();
    const number = `${process.pid}-${++count}`;
    const ids = ['apple', 'beet', 'corn'].map((name) => `${name}-${number}`);
    for (const extensionId of ids) await server.ask(extensionId, '/register', { method: 'POST', body: { extensionId } });
    const vt = await ValueTracker.connect({
        extensionId: `watcher-${number}`, url: server.url, getContext: null, retryMs: [5, 10], probeMs: [20, 50],
    });
    t.after(() => vt.close());
    const write = (/** @type {number} */ index, /** @type {any} */ value, chat = 'duel') =>
        server.ask(ids[index], `/chats/${chat}/data`, { method: 'PUT', body: { key: 'hp', value } });
    /** @type {any[]} */
    const events = [];
    const seen = () => events.map(({ extensionId, changes }) => `${extensionId.split('-')[0]} ${changes.at(-1).after}`);
    return { server, ids, vt, write, events, seen };
}

/** Count the feeds that are opened. @param {import('node:test').TestContext} t */
function connections(t) {
    const { fetch } = globalThis;
    const opened = { count: 0 };
    globalThis.fetch = async (url, init) => {
        if (String(url).includes('/events?')) opened.count++;
        return await fetch(url, init);
    };
    t.after(() => { globalThis.fetch = fetch; });
    return opened;
}

test('several extensions are followed on one connection', async (t) => {
    const { ids, vt, write, events, seen } = await watching(t);
    const opened = connections(t);
    await write(0, 'before');

    const stop = await vt.follow(ids, (event) => { events.push(event); });
    await write(1, 1);
    await until(() => events.length === 1);
    await write(0, 2);
    await until(() => events.length === 2);
    await write(2, 3);
    await until(() => events.length === 3);

    assert.deepEqual(seen(), ['beet 1', 'apple 2', 'corn 3']);
    assert.equal(opened.count, 1);
    stop();
    await write(0, 4);
    await vt.request('GET', '/changes');
    assert.equal(events.length, 3);
});

test('only the changes of a chat or a key are followed', async (t) => {
    const { ids, vt, write, events, seen } = await watching(t);

    await vt.follow(ids, (event) => { events.push(event); }, { chatId: 'duel', key: 'hp' });
    await write(0, 1, 'elsewhere');
    await write(1, 2);

    await until(() => events.length === 1);
    assert.deepEqual(seen(), ['beet 2']);
});

test('an extension that is gone is reported and the others go on', async (t) => {
    const { server, ids, vt, write, events, seen } = await watching(t);
    /** @type {string[]} */
    const gone = [];

    await vt.follow(ids, (event) => { events.push(event); throw new Error('the handler fails'); }, { onGone: (id) => gone.push(id) });
    t.mock.method(console, 'error', () => {});
    await server.ask(ids[1], '/register', { method: 'DELETE', body: { extensionId: ids[1] } });
    await until(() => gone.length === 1);
    await write(2, 1);
    await until(() => events.length === 1);
    for (const index of [0, 2]) await server.ask(ids[index], '/register', { method: 'DELETE', body: { extensionId: ids[index] } });
    await until(() => gone.length === 3);

    assert.equal(gone[0], ids[1]);
    assert.deepEqual(seen(), ['corn 1']);
});

test('a feed continues where it was when the server is back, and says what was missed', async (t) => {
    const server = await Server.start(t);
    const { ids, vt, write, events, seen } = await watching(t, server);
    /** @type {string[]} */
    const missed = [];
    await vt.follow(ids, (event) => { events.push(event); }, { onMissed: (id) => missed.push(id) });
    await write(0, 1);
    await until(() => events.length === 1);

    await server.down('SIGKILL');
    await server.up();
    await write(1, 2);
    await until(() => events.length === 2);
    assert.deepEqual([seen(), missed], [['apple 1', 'beet 2'], []]);

    await server.down();
    await server.up();
    for (const value of [3, 4, 5]) await write(2, value);
    await server.ask(ids[2], '/compact', { method: 'POST', body: { keep: { revisions: 1 } } });
    await until(() => missed.length || seen().includes('corn 5'));
    await write(2, 6);
    await until(() => seen().includes('corn 6'));
    // The reader may have been back before the log was compacted: then it has all events.
    assert.ok(missed.includes(ids[2]) || ['corn 3', 'corn 4', 'corn 5'].every((each) => seen().includes(each)));
});

test('an extension that the server does not know is named', async (t) => {
    const { ids, vt } = await watching(t);

    await assert.rejects(vt.follow([...ids, 'nobody-knows'], () => {}), (/** @type {any} */ error) => {
        assert.deepEqual([error.status, error.code, error.details], [404, 'extension_not_registered', { extensionId: 'nobody-knows' }]);
        return true;
    });
    await assert.rejects(vt.follow([], () => {}), (/** @type {any} */ error) => error.status === 400);
});
