/**
 * The library against a server of its own, without SillyTavern: from Node, with `fetch`.
 */

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { ValueTracker } from '../../../sillytavern/client/valuetracker.js';
import { commonServer, heard } from './begin.js';
import { Server, until } from './server.js';

/** @param {any} t @param {any} [options] */
async function connect(t, options = {}) {
    const server = options.server ?? await commonServer();
    const vt = await ValueTracker.connect({ extensionId: 'direct', url: server.url, getContext: null, retryMs: [5], probeMs: [20, 50], ...options });
    t.after(() => vt.close());
    return { server, vt };
}

test('a chat is opened by its id, written, and opened again', async (t) => {
    const { vt } = await connect(t);
    const chat = await vt.openChat('A tale @ #1', { defaults: { gold: 7 } });
    chat.state.hp = 50;
    await chat.saved;

    const other = await vt.openChat('another');
    assert.throws(() => chat.state, { code: 'stale_chat' });
    assert.deepEqual(other.snapshot().data, {});
    const again = await vt.openChat('A tale @ #1');

    assert.deepEqual(again.snapshot().data, { gold: 7, hp: 50 });
});

test('anchors and the chain can be given explicitly', async (t) => {
    const { vt } = await connect(t);
    const chat = await vt.openChat('anchored');
    chat.state.hp = 50;
    await chat.saved;
    await chat.set('hp', 45, { anchor: { messageId: 'm1', swipe: '0' } });

    const report = await chat.reconcile([]);
    assert.deepEqual([report.dormant, chat.state.hp], [1, 50]);
    await chat.set('hp', 47, { anchor: { messageId: 'm1', swipe: '1' } });
    await chat.reconcile([{ messageId: 'm1', swipe: '0' }]);
    assert.equal(chat.state.hp, 45);
    // An anchor that is not visible: stored without effect.
    await chat.set('hp', 1, { anchor: { messageId: 'm1', swipe: '1' } });
    assert.equal(chat.state.hp, 45);
});

test('two programs see each other\'s changes', async (t) => {
    const { vt: one } = await connect(t);
    const { vt: two } = await connect(t);
    const [a, b] = [await one.openChat('shared'), await two.openChat('shared')];

    a.state.hp = 1;
    await until(() => b.state.hp === 1);
    b.state.hp = 2;
    await until(() => a.state.hp === 2);
});

test('a program that is behind undoes nothing, unless it insists', async (t) => {
    const [one, two] = [await connect(t), await connect(t)];
    const chats = [await one.vt.openChat('behind'), await two.vt.openChat('behind')];
    const stale = heard(two.vt, 'stale');
    await chats[1].reconcile([{ messageId: 'm1' }]);
    await chats[0].set('hp', 45, { anchor: { messageId: 'm2', swipe: '0' } });
    await chats[0].reconcile([{ messageId: 'm1' }]);
    const { revision } = await chats[0].reconcile([{ messageId: 'm1' }, { messageId: 'm2' }]);
    await until(() => chats[1].revision >= revision && chats[1].state.hp === 45);

    for (const _ of [1, 2]) {
        assert.equal(await chats[1].reconcile([{ messageId: 'm1' }]), null);
        assert.equal(chats[1].state.hp, 45);
    }
    assert.deepEqual(stale, [{ reason: 'tab' }]);
    const { dormant } = await chats[1].insist([{ messageId: 'm1' }]);

    assert.equal(dormant, 1);
    assert.equal(chats[1].state.hp, undefined);
    assert.deepEqual(stale, [{ reason: 'tab' }, null]);
});

test('a restarted server is found again, and the writes in between are sent', async (t) => {
    const server = await Server.start(t);
    const { vt } = await connect(t, { server });
    const chat = await vt.openChat('restarted');
    chat.state.hp = 50;
    await chat.saved;
    const statuses = heard(vt, 'status');
    await server.down();
    await until(() => vt.status === 'away');

    chat.state.hp = 45;
    await chat.saved;
    await server.up();
    await until(() => vt.status === 'online');

    assert.deepEqual(await server.ask('direct', '/chats/restarted/data'), { hp: 45 });
    assert.deepEqual(statuses, ['away', 'online']);
    await server.ask('direct', '/chats/restarted/data', { method: 'PUT', body: { key: 'hp', value: 1 } });
    await until(() => chat.state.hp === 1);
});

test('any route can be called', async (t) => {
    const { vt } = await connect(t);
    const { status, body } = await vt.request('POST', '/ping', { body: { message: 'x' } });
    assert.deepEqual([status, body], [200, { message: 'Pong! x' }]);
    await assert.rejects(vt.request('GET', '/nothing'), { code: 'not_found', status: 404 });
    assert.throws(() => vt.chat, { code: 'chat_not_loaded' });
});
