/**
 * How writes get to the server.
 */

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { ValueTracker } from '../../../sillytavern/client/valuetracker.js';
import { begin, commonServer, heard, reply, watched } from './begin.js';
import { Server, until } from './server.js';
import { Tavern } from './tavern.js';

test('the writes of one tick are one batch', async (t) => {
    const { vt } = await begin(t, { state: { outfit: { top: 'coat' } } });
    const { requests } = watched(t);

    vt.chat.state.hp = 1;
    await null;
    vt.chat.state.outfit.top = 'cape';
    vt.chat.state.hp = 2;
    vt.chat.increment('gold', 3);
    const { revision } = await vt.chat.saved;

    const batches = requests.filter(({ path }) => path.endsWith('/batch'));
    assert.equal(batches.length, 1);
    assert.deepEqual(batches[0].body.operations.map(({ op, key, value, by }) => [op, key, value ?? by]), [
        ['set', 'hp', 2], ['merge', 'outfit', { top: 'cape' }], ['increment', 'gold', 3],
    ]);
    assert.equal(vt.chat.revision, revision);
});

const NEVER = 3_600_000;
const tick = () => new Promise((resolve) => setTimeout(resolve, 0));

test('quick successive writes are joined, and announced at the end of each tick', async (t) => {
    const { vt } = await begin(t, { state: { gold: 1 }, options: { saveMs: [NEVER, NEVER] } });
    const { requests } = watched(t);
    const changes = heard(vt, 'change');
    const batches = () => requests.filter(({ path }) => path.endsWith('/batch'));

    for (let hp = 1; hp <= 5; hp++) {
        vt.chat.state.hp = hp;
        await tick();
    }
    vt.chat.increment('gold', 3);
    await tick();
    assert.deepEqual(changes.map(({ source, changes: [{ key, before, after }] }) => [source, key, before, after]), [
        ['local', 'hp', undefined, 1], ['local', 'hp', 1, 2], ['local', 'hp', 2, 3], ['local', 'hp', 3, 4], ['local', 'hp', 4, 5],
        ['local', 'gold', 1, 4],
    ]);
    assert.equal(batches().length, 0);

    await vt.flush();
    assert.deepEqual(batches().map(({ body }) => body.operations.map((/** @type {any} */ { op, key, value, by }) => [op, key, value ?? by])), [
        [['set', 'hp', 5], ['increment', 'gold', 3]],
    ]);
    // A change that was announced is not announced again.
    assert.equal(changes.length, 6);
    await vt.flush();
    assert.equal(batches().length, 1);
});

test('a critical write takes the waiting ones with it, and so do a batch, `saved` and a message', async (t) => {
    const { tavern, vt } = await begin(t, { options: { saveMs: [NEVER, NEVER] } });
    const { requests } = watched(t);
    const sent = () => requests.filter(({ path }) => path.endsWith('/batch')).flatMap(({ body }) => body.operations.map((/** @type {any} */ { key }) => key));

    vt.chat.state.a = 1;
    await vt.chat.set('b', 1, { critical: true });
    assert.deepEqual(sent(), ['a', 'b']);
    vt.chat.state.c = 1;
    await vt.batch((state) => { state.d = 1; });
    assert.deepEqual(sent(), ['a', 'b', 'c', 'd']);
    vt.chat.state.e = 1;
    await vt.chat.saved;
    assert.deepEqual(sent(), ['a', 'b', 'c', 'd', 'e']);
    vt.chat.state.f = 1;
    await tavern.send('Go on.');
    await until(() => sent().includes('f'));
    vt.chat.state.g = 1;
    await tavern.open('Another');
    assert.deepEqual(sent(), ['a', 'b', 'c', 'd', 'e', 'f', 'g']);
});

test('writes are sent a pause after the last one, and after the longest time at the latest', async (t) => {
    const { vt } = await begin(t, { options: { saveMs: [20, NEVER] } });
    vt.chat.state.hp = 1;
    await until(async () => (await vt.request('GET', `/chats/${vt.chat.id}/data`)).body.hp === 1);

    const { vt: busy } = await begin(t, { options: { saveMs: [NEVER, 20] } });
    // It never pauses.
    for (let hp = 1; (await busy.request('GET', `/chats/${busy.chat.id}/data`)).body.hp === undefined; hp++) busy.chat.state.hp = hp;
});

test('a batch saves once, in one revision, also when it takes its time', async (t) => {
    const { vt } = await begin(t);
    const { requests } = watched(t);

    const { revision, results } = await vt.batch(async (state) => {
        for (let index = 0; index < 100; index++) {
            state[`key-${index}`] = index;
            if (index % 25 === 0) await new Promise((resolve) => setTimeout(resolve, 2));
        }
    });

    assert.equal(requests.filter(({ path }) => path.endsWith('/batch')).length, 1);
    assert.equal(results.length, 100);
    assert.equal(revision, vt.chat.revision);
});

test('a batch that throws leaves everything as it was', async (t) => {
    const { server, vt, extensionId } = await begin(t, { state: { hp: 50, bag: ['rope'] } });

    await assert.rejects(vt.batch((state) => {
        state.hp = 1;
        state.bag.push('lamp');
        state.extra = true;
        throw new Error('No.');
    }), { message: 'No.' });

    assert.deepEqual(vt.chat.snapshot().data, { hp: 50, bag: ['rope'] });
    assert.deepEqual(await server.ask(extensionId, `/chats/${vt.chat.id}/data`), { hp: 50, bag: ['rope'] });
});

test('reads and writes before the load throw', async (t) => {
    const server = await commonServer();
    const tavern = new Tavern();
    const vt = await ValueTracker.connect({ extensionId: 'not-loaded', url: server.url, getContext: tavern.getContext });
    t.after(() => vt.close());

    assert.equal(vt.hasChat, false);
    assert.throws(() => vt.chat.state, { name: 'ChatNotLoadedError', code: 'chat_not_loaded' });
    assert.throws(() => vt.batch(() => {}), { name: 'ChatNotLoadedError' });

    const coming = vt.whenChat();
    await tavern.open('Tale');
    assert.equal((await coming).state, vt.chat.state);
    await tavern.close();
    assert.throws(() => vt.chat, { name: 'ChatNotLoadedError' });
});

test('onChat is called for the open chat, for each one that follows, and when none is open', async (t) => {
    const { tavern, vt } = await begin(t);
    /** @type {any[]} */
    const calls = [];
    vt.onChat((chat) => { calls.push(chat && [chat.id, chat.state.gold]); }, { defaults: { gold: 7 } });

    const first = vt.chat.id;
    await tavern.open('Another tale');
    const second = vt.chat.id;
    await tavern.close();

    assert.deepEqual(calls, [[first, 7], [second, 7], null]);
});

test('the last write is saved although the chat changes at once', async (t) => {
    const { server, tavern, vt, extensionId } = await begin(t);
    const { id } = vt.chat;

    vt.chat.state.hp = 45;
    await tavern.open('Another tale');

    assert.deepEqual(await server.ask(extensionId, `/chats/${id}/data`), { hp: 45 });
    assert.deepEqual(vt.chat.snapshot().data, {});
});

test('a handle that is not yet stale cannot write while SillyTavern swaps the chat', async (t) => {
    const { tavern, vt } = await begin(t);
    tavern.metadata = {};
    assert.throws(() => { vt.chat.state.hp = 1; }, { code: 'stale_chat' });
});

test('a request with a lost answer is sent again and applied once', async (t) => {
    const { server, vt, extensionId } = await begin(t, { state: { gold: 100 } });
    const wire = watched(t);
    let lost = 0;
    wire.lose = ({ path }) => path.endsWith('/batch') && ++lost <= 2;

    await vt.chat.increment('gold', 10);
    await vt.chat.series('recap').add('one');

    const batches = wire.requests.filter(({ path }) => path.endsWith('/batch'));
    assert.equal(batches.length, 3);
    assert.equal(new Set(batches.map(({ headers }) => headers['Idempotency-Key'])).size, 1);
    assert.equal(vt.chat.state.gold, 110);
    assert.deepEqual(await server.ask(extensionId, `/chats/${vt.chat.id}/data`), { gold: 110 });
    for (const { method, path, headers } of wire.requests) {
        if (method !== 'GET') assert.ok(headers['Idempotency-Key'], path);
    }
});

test('a refused write is reported, and the value is the server\'s again', async (t) => {
    const { vt } = await begin(t, { state: { text: 'short', hp: 5 } });
    const errors = heard(vt, 'error');

    vt.chat.state.text = 'x'.repeat(9 * 2 ** 20);
    await assert.rejects(vt.chat.saved, { code: 'value_too_large', status: 413 });

    assert.equal(vt.chat.state.text, 'short');
    assert.equal(errors.length, 1);
    vt.chat.state.hp = 6;
    await vt.chat.saved;
    assert.equal(vt.chat.state.hp, 6);
});

test('an operation on a value of another type is refused at once', async (t) => {
    const { vt } = await begin(t, { state: { name: 'Ann' } });
    assert.throws(() => vt.chat.increment('name'), { code: 'type_conflict' });
    assert.throws(() => vt.chat.append('name', 1), { code: 'type_conflict' });
    assert.throws(() => vt.chat.increment('gold', NaN), TypeError);
    assert.equal(vt.chat.state.name, 'Ann');
});

test('every operation has its effect at once and its result from the server', async (t) => {
    const { vt } = await begin(t, { state: { hp: 5, bag: ['rope'], outfit: { top: 'coat' } } });
    const { chat } = vt;

    const results = [
        chat.set('mood', 'calm'), chat.increment('hp', 2), chat.append('bag', 'lamp'), chat.addToSet('bag', 'rope'),
        chat.pull('bag', 'rope'), chat.merge('outfit', { top: null, hat: 'cap' }), chat.remove('mood'),
    ];
    assert.deepEqual(chat.snapshot().data, { hp: 7, bag: ['lamp'], outfit: { hat: 'cap' } });

    assert.deepEqual(await Promise.all(results), [
        { value: 'calm' }, { value: 7 }, { value: ['rope', 'lamp'] }, { added: false },
        { value: ['lamp'] }, { value: { hat: 'cap' } }, { removed: true },
    ]);
    assert.deepEqual(await chat.clear(), { removedCount: 3 });
    assert.deepEqual(chat.snapshot().data, {});
});

test('a change inside a large value is sent as a patch, and the answer holds no value', async (t) => {
    const { server, vt, extensionId } = await begin(t, { state: { quests: Array.from({ length: 300 }, (_, index) => ({ name: `quest ${index}`, done: false })) } });
    const { requests } = watched(t);

    vt.chat.state.quests[7].done = true;
    vt.chat.state.quests.splice(9, 1);
    await vt.chat.saved;

    const [{ body }] = requests.filter(({ path }) => path.endsWith('/batch'));
    assert.deepEqual(body.operations.map(({ op, key }) => [op, key]), [['patch', 'quests']]);
    assert.ok(JSON.stringify(body).length < 500);
    const { quests } = await server.ask(extensionId, `/chats/${vt.chat.id}/data`);
    assert.deepEqual(quests, vt.chat.snapshot().data.quests);
    assert.equal(quests.length, 299);
});

test('an operation that met the value of another client has the value of both', async (t) => {
    const { server, vt, extensionId } = await begin(t, { state: { bag: ['rope'] }, options: { feed: false } });
    await server.ask(extensionId, `/chats/${vt.chat.id}/batch`, { method: 'POST', body: { operations: [{ op: 'append', key: 'bag', value: 'lamp' }] } });

    assert.deepEqual(await vt.chat.append('bag', 'map'), { value: ['rope', 'lamp', 'map'] });

    assert.deepEqual(vt.chat.snapshot().data, { bag: ['rope', 'lamp', 'map'] });
});

test('more operations than a request may hold are sent in several requests', async (t) => {
    const { server, vt, extensionId } = await begin(t);
    for (let index = 0; index < 2500; index++) vt.chat.state[`key-${index}`] = index;
    await vt.chat.saved;
    assert.equal(Object.keys(await server.ask(extensionId, `/chats/${vt.chat.id}/data`)).length, 2500);
});

test('instances of the chat are live too, and go into the same batch', async (t) => {
    const { server, tavern, vt, extensionId } = await begin(t);
    const instance = await vt.chat.addInstance({ id: 'sera', name: 'Seraphina' });
    assert.equal(instance.characterId, 'Seraphina.png');
    const { requests } = watched(t);

    await reply(tavern, vt, (state) => { state.gold = 1; instance.state.hp = 40; });
    assert.equal(requests.filter(({ path }) => path.endsWith('/batch')).length, 1);
    assert.deepEqual(await server.ask(extensionId, '/instances/sera/data'), { hp: 40 });
    await tavern.swipe();
    assert.equal(vt.chat.instance('sera').state.hp, undefined);

    await tavern.swipeTo(0);
    await tavern.reload();
    assert.deepEqual(vt.chat.snapshot().instances, [
        { instance: { id: 'sera', characterId: 'Seraphina.png', name: 'Seraphina' }, data: { hp: 40 } },
    ]);
    await vt.chat.removeInstance('sera');
    assert.deepEqual(vt.chat.instances, []);
    assert.throws(() => vt.chat.instance('sera'), { code: 'instance_not_found' });
});

test('keys of any kind are written and read', async (t) => {
    const { tavern, vt } = await begin(t);
    const odd = { __proto__: null, 'a/b?c=d#e': 1, 'ключ 🗝': { '': 2 }, toString: [3], then: 4 };
    Object.assign(vt.chat.state, odd);
    vt.chat.state['__proto__'] = { polluted: true };
    await vt.chat.saved;

    await tavern.reload();

    assert.equal(JSON.stringify(vt.chat.state), '{"a/b?c=d#e":1,"ключ 🗝":{"":2},"toString":[3],"then":4,"__proto__":{"polluted":true}}');
    assert.equal(/** @type {any} */ ({}).polluted, undefined);
});

test('history says who wrote what, and where', async (t) => {
    const { tavern, vt } = await begin(t);
    await reply(tavern, vt, (state) => { state.hp = 40; });
    await vt.chat.edit((state) => { state.hp = 41; });

    const { items } = await vt.chat.history({ key: 'hp' });

    assert.deepEqual(items.map(({ actor, after, anchor }) => [actor, after, anchor]), [
        ['user', 41, null], ['extension', 40, vt.chat.anchor(2)],
    ]);
    const [change] = await vt.chat.diff(items[1].revision);
    assert.deepEqual([change.before, change.after], [40, 41]);
    await vt.chat.restore(items[1].revision);
    assert.equal(vt.chat.state.hp, 40);
});

test('connect rejects errors that waiting does not mend', async () => {
    const server = await commonServer();
    await assert.rejects(ValueTracker.connect({ extensionId: 'no/such', url: server.url, getContext: null }), { code: 'invalid_extension_id' });
    await assert.rejects(ValueTracker.connect(/** @type {any} */ ({})), TypeError);
});

test('writes that come too quickly wait until the server takes them', async (t) => {
    const server = await Server.start(t, ['--rate-per-second', '1']);
    const { vt, extensionId } = await begin(t, { server, state: { gold: 1 } });
    const errors = heard(vt, 'error');
    const ask = () => fetch(`${server.url}/instances`, { headers: { 'x-extension-id': extensionId } });
    await until(async () => (await ask()).status === 429);

    await vt.chat.increment('gold', 2);
    const { away } = await vt.chat.saved;

    assert.equal(away, false);
    assert.equal(vt.status, 'online');
    assert.deepEqual(errors, []);
    await until(async () => (await server.ask(extensionId, `/chats/${vt.chat.id}/data`)).gold === 3);
});
