/**
 * The server goes away, and comes back.
 */

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { test } from 'node:test';

import { ValueTracker } from '../../../sillytavern/client/valuetracker.js';
import { begin, heard, reply, watched } from './begin.js';
import { Server, until } from './server.js';
import { Tavern } from './tavern.js';

test('values written while the server is killed are kept in the chat, and moved to the server when it is back', async (t) => {
    const server = await Server.start(t);
    const { tavern, vt, extensionId } = await begin(t, { server, state: { hp: 50, bag: ['rope'], gone: 1 } });
    const instance = await vt.chat.addInstance({ id: 'sera' });
    const statuses = heard(vt, 'status');
    const moved = heard(vt, 'moved');
    const { chat } = vt;
    await server.down('SIGKILL');

    await tavern.send('Go on.');
    chat.state.hp = 45;
    chat.state.bag.push('lamp');
    delete chat.state.gone;
    instance.state.mood = 'calm';
    assert.deepEqual((await chat.saved).away, true);
    assert.equal(vt.status, 'away');
    assert.equal(chat.away, true);
    assert.deepEqual(chat.snapshot().data, { hp: 45, bag: ['rope', 'lamp'] });
    const kept = tavern.files.get('Tale')?.metadata.valuetracker.away;
    assert.deepEqual(kept[0].rows.map(({ instanceId, key, value }) => [instanceId, key, value]), [
        [null, 'hp', 45], [null, 'bag', ['rope', 'lamp']], [null, 'gone', undefined], ['sera', 'mood', 'calm'],
    ]);
    await assert.rejects(chat.series('recap').list(), { name: 'ServerAwayError', code: 'server_away' });
    await assert.rejects(chat.checkpoints.create(), { code: 'server_away' });

    await server.up();
    await until(() => moved.length);

    assert.deepEqual(await server.ask(extensionId, `/chats/${chat.id}/data`), { hp: 45, bag: ['rope', 'lamp'] });
    assert.deepEqual(await server.ask(extensionId, '/instances/sera/data'), { mood: 'calm' });
    assert.equal(tavern.files.get('Tale')?.metadata.valuetracker.away, undefined);
    await until(() => vt.status === 'online');
    assert.deepEqual(statuses, ['away', 'online']);
    assert.equal(vt.chat, chat);
    assert.equal(chat.away, false);

    // And it follows the story as before.
    await tavern.swipe();
    assert.equal(chat.state.hp, 50);
    await tavern.swipeTo(0);
    assert.equal(chat.state.hp, 45);
});

test('a page that opens while the server is away works, and its values are moved when the server is back', async (t) => {
    const server = await Server.start(t);
    await server.down();
    const { tavern, vt, extensionId } = await begin(t, { server, options: { defaults: { gold: 7 } } });

    assert.equal(vt.status, 'away');
    assert.equal(vt.chat.state.gold, 7);
    vt.chat.state.hp = 45;
    await vt.chat.saved;
    await tavern.open('Another tale');
    assert.equal(vt.chat.state.hp, undefined);
    await tavern.open('Tale');
    assert.equal(vt.chat.state.hp, 45);
    const moved = heard(vt, 'moved');
    await server.up();
    await until(() => moved.length);

    assert.deepEqual(await server.ask(extensionId, `/chats/${vt.chat.id}/data`), { gold: 7, hp: 45 });
    assert.deepEqual(moved, [{ keys: ['hp'], conflicts: [] }]);
});

test('without the plugin SillyTavern answers itself, which counts as away', async (t) => {
    const tavern = new Tavern();
    await tavern.open('Tale');
    for (const [status, text] of /** @type {[number, string][]} */ ([[404, '<h1>Not found</h1>'], [403, 'Invalid CSRF token'], [200, '<html>']])) {
        const host = createServer((_, answer) => answer.writeHead(status).end(text)).listen(0, '127.0.0.1');
        t.after(() => host.close());
        await once(host, 'listening');
        const url = `http://127.0.0.1:${/** @type {any} */ (host.address()).port}/api/plugins/valuetracker`;

        const extensionId = `no-plugin-${status}`;
        const vt = await ValueTracker.connect({ extensionId, getContext: tavern.getContext, retryMs: [1], url });
        t.after(() => vt.close());
        vt.chat.state.hp = 1;
        await vt.chat.saved;

        assert.deepEqual([vt.status, vt.chat.state.hp], ['away', 1]);
        assert.equal(tavern.metadata.valuetracker.away.at(-1).extensionId, extensionId);
    }
});

test('a server value that was never read is not overwritten by a value kept in the chat', async (t) => {
    const server = await Server.start(t);
    const first = await begin(t, { server, state: { hp: 45 } });
    const { tavern, extensionId } = first;
    await first.vt.close();
    await server.down();

    const { vt } = await begin(t, { server, tavern, extensionId });
    const conflicts = heard(vt, 'conflict');
    vt.chat.state.hp ??= 100;
    vt.chat.state.mood = 'calm';
    await vt.chat.saved;
    await server.up();
    await until(() => conflicts.length && vt.status === 'online');

    assert.deepEqual(vt.chat.snapshot().data, { hp: 45, mood: 'calm' });
    const [{ key, mine, theirs, kept, use }] = conflicts;
    assert.deepEqual({ key, mine, theirs, kept }, { key: 'hp', mine: 100, theirs: 45, kept: 'theirs' });
    await use(mine);
    assert.deepEqual(await server.ask(extensionId, `/chats/${vt.chat.id}/data`), { hp: 100, mood: 'calm' });
});

test('a write whose answer was lost is applied once when the server is back', async (t) => {
    const server = await Server.start(t);
    const { vt, extensionId } = await begin(t, { server, state: { gold: 100 } });
    const wire = watched(t);
    wire.lose = ({ path }) => path.endsWith('/batch') || path === '/probe';

    await vt.chat.increment('gold', 10);
    assert.equal(vt.status, 'away');
    wire.lose = () => false;
    await until(() => vt.status === 'online');

    assert.equal(vt.chat.state.gold, 110);
    const { items } = await vt.chat.history({ key: 'gold' });
    assert.deepEqual(items.map(({ op }) => op), ['increment', 'set']);
    assert.deepEqual(await server.ask(extensionId, `/chats/${vt.chat.id}/data`), { gold: 110 });
});

for (const arrived of [false, true]) {
    const which = arrived ? 'one whose answer was lost' : 'one that never arrived';

    test(`what was written after ${which} is the newer, and nobody else's`, async (t) => {
        const server = await Server.start(t);
        const { vt, extensionId } = await begin(t, { server, state: { hp: 50, n: 0, gone: 1 } });
        const wire = watched(t);
        const conflicts = heard(vt, 'conflict');
        if (arrived) wire.lose = ({ path }) => path.endsWith('/batch') || path === '/probe';
        else await server.down('SIGKILL');

        vt.chat.state.hp = 44;
        vt.chat.increment('n');
        vt.chat.remove('gone');
        await vt.chat.saved;
        assert.equal(vt.status, 'away');
        for (let turn = 1; turn < 10; turn++) {
            vt.chat.state.hp = 44 - turn;
            vt.chat.increment('n');
            vt.chat.state.gone = turn;
            await vt.chat.saved;
        }
        wire.lose = () => false;
        if (!arrived) await server.up();
        await until(() => vt.status === 'online');

        assert.deepEqual(conflicts, []);
        assert.deepEqual(await server.ask(extensionId, `/chats/${vt.chat.id}/data`), { hp: 35, n: 10, gone: 9 });
        assert.deepEqual(vt.chat.snapshot().data, { hp: 35, n: 10, gone: 9 });
    });
}

test('the newest kept value counts, also if its page was closed before the server was back', async (t) => {
    const server = await Server.start(t);
    const { tavern, vt, extensionId } = await begin(t, { server, state: { hp: 50 } });
    const wire = watched(t);
    wire.lose = ({ path }) => path.endsWith('/batch') || path === '/probe';
    vt.chat.state.hp = 44;
    await vt.chat.saved;
    vt.chat.state.hp = 43;
    await vt.chat.saved;
    await vt.close();
    await tavern.close();
    wire.lose = () => false;

    const again = await begin(t, { server, tavern, extensionId });

    assert.equal(again.vt.chat.state.hp, 43);
    assert.deepEqual(await server.ask(extensionId, `/chats/${again.vt.chat.id}/data`), { hp: 43 });
});

test('two tabs that wrote the same key while the server was away: the later one gets a conflict', async (t) => {
    const server = await Server.start(t);
    const one = await begin(t, { server, state: { hp: 50 } });
    await one.tavern.save();
    const tavern = new Tavern();
    tavern.files = one.tavern.files;
    const two = await begin(t, { server, tavern, extensionId: one.extensionId });
    const conflicts = [one, two].map(({ vt }) => heard(vt, 'conflict'));
    await server.down('SIGKILL');
    one.vt.chat.state.hp = 1;
    two.vt.chat.state.hp = 2;
    await Promise.all([one.vt.chat.saved, two.vt.chat.saved]);

    await server.up();
    await until(() => [one, two].every(({ vt }) => vt.status === 'online'));

    await until(() => conflicts.flat().length > 0);
    const [{ key, mine, theirs }] = conflicts.flat();
    assert.deepEqual([key, [mine, theirs].sort()], ['hp', [1, 2]]);
    await until(() => one.vt.chat.state.hp === two.vt.chat.state.hp);
});

test('a player\'s edit while the server was away survives the swipe of a message that wrote later', async (t) => {
    const server = await Server.start(t);
    const { tavern, vt } = await begin(t, { server, state: { hp: 50 } });
    await server.down('SIGKILL');
    await vt.chat.edit((state) => { state.hp = 49; state.mood = 'calm'; });
    await reply(tavern, vt, (state) => { state.hp -= 10; state.mood = 'angry'; state.new = 1; });
    assert.equal(vt.status, 'away');

    await server.up();
    await until(() => vt.status === 'online');
    assert.deepEqual(vt.chat.snapshot().data, { hp: 39, mood: 'angry', new: 1 });
    await tavern.swipe();
    assert.deepEqual(vt.chat.snapshot().data, { hp: 49, mood: 'calm' });
    await tavern.swipeTo(0);

    assert.deepEqual(vt.chat.snapshot().data, { hp: 39, mood: 'angry', new: 1 });
});

test('state is moved once, also if the page was closed before the answer', async (t) => {
    const server = await Server.start(t);
    const { tavern, vt, extensionId } = await begin(t, { server, state: { hp: 50 } });
    await server.down();
    vt.chat.state.hp = 45;
    await vt.chat.saved;
    await vt.close();
    const asItWas = JSON.parse(JSON.stringify(tavern.files.get('Tale')));
    await server.up();

    const first = await begin(t, { server, tavern, extensionId, options: { feed: false } });
    await first.vt.chat.edit((state) => { state.hp = 99; });
    await first.vt.close();
    tavern.files.set('Tale', asItWas);
    await tavern.close();
    const second = await begin(t, { server, tavern, extensionId });
    assert.equal(second.vt.chat.state.hp, 99);
});

test('a branch made while the server is away has the kept values, and its parent has them too', async (t) => {
    const server = await Server.start(t);
    const { tavern, vt, extensionId } = await begin(t, { server, state: { hp: 50 } });
    await reply(tavern, vt, (state) => { state.hp = 40; });
    const parent = vt.chat.id;
    await server.down();
    vt.chat.state.mood = 'calm';
    await vt.chat.saved;
    await tavern.branch(2);
    assert.equal(vt.chat.state.mood, 'calm');
    const branch = vt.chat.id;

    await server.up();
    await until(() => vt.status === 'online');
    assert.deepEqual(vt.chat.snapshot().data, { hp: 40, mood: 'calm' });
    await tavern.open('Tale');

    assert.equal(vt.chat.id, parent);
    assert.deepEqual(vt.chat.snapshot().data, { hp: 40, mood: 'calm' });
    assert.deepEqual(await server.ask(extensionId, `/chats/${branch}/data`), { hp: 40, mood: 'calm' });
});

test('a write just before the chat changed is sent when the server is back', async (t) => {
    const server = await Server.start(t);
    const { tavern, vt, extensionId } = await begin(t, { server });
    const { id } = vt.chat;
    await server.down();

    vt.chat.state.hp = 45;
    await tavern.open('Another tale');
    assert.equal(vt.chat.away, true);
    await server.up();
    await until(() => vt.status === 'online');

    assert.deepEqual(await server.ask(extensionId, `/chats/${id}/data`), { hp: 45 });
    assert.deepEqual(await server.ask(extensionId, `/chats/${vt.chat.id}/data`), {});
});

test('nothing is kept in, or taken from, the metadata of a chat that SillyTavern is just changing to', async (t) => {
    const server = await Server.start(t);
    const { tavern, vt, extensionId } = await begin(t, { server });
    const { id } = vt.chat;
    await server.down();
    await until(() => vt.status === 'away');

    // SillyTavern has the other chat's metadata before its CHAT_CHANGED.
    vt.chat.state.hp = 45;
    const { saved } = vt.chat;
    tavern.file = 'Another tale';
    tavern.metadata = { integrity: 'other' };
    await saved;
    assert.deepEqual(tavern.metadata, { integrity: 'other' });
    await tavern.open('Another tale');
    await server.up();
    await until(() => vt.status === 'online');

    assert.deepEqual(await server.ask(extensionId, `/chats/${id}/data`), { hp: 45 });
    assert.deepEqual(await server.ask(extensionId, `/chats/${vt.chat.id}/data`), {});
});

test('values that the server refuses stay in the chat, and the chat is loaded', async (t) => {
    const server = await Server.start(t);
    const { tavern, vt } = await begin(t, { server, state: { hp: 50 } });
    await server.down();
    vt.chat.state.text = 'x'.repeat(9 * 2 ** 20);
    await vt.chat.saved;
    const errors = heard(vt, 'error');
    await server.up();
    await until(() => vt.status === 'online');

    assert.deepEqual(errors.map(({ code }) => code), ['value_too_large']);
    assert.equal(tavern.metadata.valuetracker.away.length, 1);
    await tavern.reload();
    assert.equal(vt.chat.state.hp, 50);
});

test('a request without an answer that the server refuses does not keep it away', async (t) => {
    const server = await Server.start(t);
    const { tavern, vt, extensionId } = await begin(t, { server, state: { hp: 50 } });
    const errors = heard(vt, 'error');
    const wire = watched(t);
    wire.lose = ({ path }) => path.endsWith('/batch') || path === '/probe';
    vt.chat.state.text = 'x'.repeat(9 * 2 ** 20);
    await vt.chat.saved;
    assert.equal(vt.status, 'away');
    wire.lose = () => false;
    await until(() => vt.status === 'online');

    assert.deepEqual(errors.map(({ code }) => code), ['value_too_large']);
    assert.equal(tavern.metadata.valuetracker.away.length, 1);
    vt.chat.state.hp = 45;
    await vt.chat.saved;
    assert.deepEqual(await server.ask(extensionId, `/chats/${vt.chat.id}/data`), { hp: 45 });
});

test('keys named __proto__ survive the server\'s absence', async (t) => {
    const server = await Server.start(t);
    const { tavern, vt, extensionId } = await begin(t, { server });
    await server.down();
    vt.chat.state['__proto__'] = { polluted: true };
    await vt.chat.saved;
    await tavern.reload();
    assert.equal(JSON.stringify(vt.chat.state), '{"__proto__":{"polluted":true}}');
    await server.up();
    await until(() => vt.status === 'online');

    assert.equal(JSON.stringify(await server.ask(extensionId, `/chats/${vt.chat.id}/data`)), '{"__proto__":{"polluted":true}}');
    assert.equal(/** @type {any} */ ({}).polluted, undefined);
});

test('the swipes of an hour without a server are followed when it is back', async (t) => {
    const server = await Server.start(t);
    const { tavern, vt } = await begin(t, { server, state: { hp: 50 } });
    await reply(tavern, vt, (state) => { state.hp = 45; });
    await server.down();
    await tavern.swipe();
    await vt.chat.edit((state) => { state.mood = 'calm'; });
    assert.equal(vt.status, 'away');

    await server.up();
    await until(() => vt.status === 'online');

    assert.deepEqual(vt.chat.snapshot().data, { hp: 50, mood: 'calm' });
});

test('an extension that was removed from the server registers itself again', async (t) => {
    const { server, vt, extensionId } = await begin(t);
    await server.ask(extensionId, '/register', { method: 'DELETE', body: { extensionId } });
    vt.chat.state.hp = 1;
    await vt.chat.saved;
    assert.deepEqual(await server.ask(extensionId, `/chats/${vt.chat.id}/data`), { hp: 1 });
});

test('while the server is away, the chat is saved once for many writes', async (t) => {
    const server = await Server.start(t);
    const { tavern, vt, extensionId } = await begin(t, { server, state: { hp: 50, gold: 1 } });
    await server.down('SIGKILL');
    await vt.chat.set('hp', 49);
    await vt.flush();
    const before = tavern.saves;

    for (let hp = 48; hp > 0; hp--) await vt.chat.set('hp', hp);
    assert.equal(tavern.saves, before);
    await until(() => tavern.saves > before);
    assert.equal(tavern.saves, before + 1);
    assert.equal(tavern.files.get('Tale')?.metadata.valuetracker.away[0].rows[0].value, 1);

    // Another chat is opened before SillyTavern has saved: the values are not lost.
    await vt.chat.increment('gold', 5);
    const { id } = vt.chat;
    await tavern.open('Another');
    await server.up();
    await until(async () => (await server.ask(extensionId, `/chats/${id}/data`)).gold === 6);
    await tavern.open('Tale');
    await until(() => vt.hasChat && vt.chat.state.hp === 1);
    assert.equal(vt.chat.state.gold, 6);
});
