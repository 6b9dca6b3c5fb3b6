/**
 * Several tabs, and other clients.
 */

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { begin, heard, reply } from './begin.js';
import { until } from './server.js';
import { Tavern } from './tavern.js';

/** A second tab with the same chat, read from the same files. @param {any} t @param {any} first */
async function secondTab(t, first) {
    const tavern = new Tavern();
    await first.tavern.save();
    tavern.files = first.tavern.files;
    await tavern.open(first.tavern.file);
    return await begin(t, { tavern, server: first.server, extensionId: first.extensionId });
}

test('a second tab sees the changes of the first', async (t) => {
    const one = await begin(t, { state: { hp: 50, outfit: { top: 'coat' } } });
    const two = await secondTab(t, one);
    const changes = heard(two.vt, 'change');
    const { outfit } = two.vt.chat.state;

    await one.vt.chat.edit((state) => { state.hp = 45; state.outfit.hat = 'cap'; });
    await until(() => two.vt.chat.state.hp === 45);
    assert.equal(outfit.hat, 'cap');
    assert.deepEqual(changes.map(({ source, changes: [{ key, before, after }] }) => [source, key, before, after]), [['remote', 'hp', 50, 45]]);
    await one.vt.chat.remove('hp');
    await until(() => two.vt.chat.state.hp === undefined);
    await one.vt.chat.addInstance({ id: 'sera' });
    await until(() => two.vt.chat.instances.length === 1);
    two.vt.chat.instance('sera').state.mood = 'calm';
    await until(() => one.vt.chat.instance('sera').state.mood === 'calm');
    await one.vt.chat.series('recap').add('one');
    await until(() => changes.some(({ changes: [change] }) => change.space === 'series'));
});

test('two tabs that change two fields of one object keep both', async (t) => {
    const one = await begin(t, { state: { outfit: { top: 'coat', hat: 'cap' }, bag: [] } });
    const two = await secondTab(t, one);

    one.vt.chat.state.outfit.top = 'cape';
    two.vt.chat.state.outfit.hat = 'crown';
    one.vt.chat.state.bag.push('rope');
    two.vt.chat.state.bag.push('lamp');
    await Promise.all([one.vt.chat.saved, two.vt.chat.saved]);

    for (const { vt } of [one, two]) {
        await until(() => vt.chat.state.outfit.top === 'cape' && vt.chat.state.outfit.hat === 'crown' && vt.chat.state.bag.length === 2);
    }
});

test('a conflict reports both values, and either can be chosen', async (t) => {
    const one = await begin(t, { state: { hp: 50 } });
    const two = await secondTab(t, one);
    const conflicts = [...[one, two].map(({ vt }) => heard(vt, 'conflict'))];

    one.vt.chat.state.hp = 1;
    two.vt.chat.state.hp = 2;
    await Promise.all([one.vt.chat.saved, two.vt.chat.saved]);
    await until(() => conflicts.flat().length);

    const conflict = conflicts.flat()[0];
    assert.deepEqual([conflict.key, conflict.kept, [conflict.mine, conflict.theirs].sort()], ['hp', 'mine', [1, 2]]);
    await until(() => one.vt.chat.state.hp === conflict.mine && two.vt.chat.state.hp === conflict.mine);
    await conflict.use(conflict.theirs);
    await until(() => one.vt.chat.state.hp === conflict.theirs && two.vt.chat.state.hp === conflict.theirs);
});

test('a write from elsewhere arrives by the feed, large ones too', async (t) => {
    const { server, vt, extensionId } = await begin(t, { state: { hp: 50 } });
    const large = 'x'.repeat(100_000);

    await server.ask(extensionId, `/chats/${vt.chat.id}/data`, { method: 'PUT', body: { key: 'hp', value: 10 } });
    await server.ask(extensionId, `/chats/${vt.chat.id}/data`, { method: 'PUT', body: { key: 'large', value: large } });

    await until(() => vt.chat.state.large === large);
    assert.equal(vt.chat.state.hp, 10);
});

test('a tab that does not know the latest messages does not hide them', async (t) => {
    const one = await begin(t, { state: { hp: 50 } });
    await reply(one.tavern, one.vt, (state) => { state.hp = 40; });
    const two = await secondTab(t, one);
    const stale = heard(two.vt, 'stale');
    await reply(one.tavern, one.vt, (state) => { state.hp = 30; });
    await until(() => two.vt.chat.state.hp === 30);

    // The other tab is ahead; this one still shows the old messages and continues from there.
    await until(() => stale.length);
    two.tavern.save = async () => {};
    await two.tavern.deleteLast(1);
    await two.tavern.send('Hm.');
    await two.tavern.swipe();

    assert.deepEqual(stale, [{ reason: 'tab' }]);
    assert.equal((await one.server.ask(one.extensionId, `/chats/${one.vt.chat.id}/data`)).hp, 30);
    await two.tavern.open('Tale');
    assert.equal(two.vt.chat.state.hp, 30);

    // It shows the latest messages now, so its changes count.
    await two.tavern.deleteLast(2);
    assert.equal(two.vt.chat.state.hp, 40);
    assert.deepEqual(stale, [{ reason: 'tab' }]);
});

test('a tab that is behind is notified when the other has gone back', async (t) => {
    const one = await begin(t, { state: { hp: 50 } });
    const two = await secondTab(t, one);
    const stale = heard(two.vt, 'stale');

    await reply(one.tavern, one.vt, (state) => { state.hp = 30; });
    await until(() => stale.length === 1);
    await one.tavern.deleteLast(2);
    await until(() => stale.length === 2);

    assert.deepEqual(stale, [{ reason: 'tab' }, null]);
    assert.equal(two.vt.chat.state.hp, 50);
    await reply(two.tavern, two.vt, (state) => { state.hp = 20; });
    await until(() => one.vt.chat.state.hp === 20);
});

test('insist makes the messages of a tab the story', async (t) => {
    const one = await begin(t, { state: { hp: 50 } });
    const two = await secondTab(t, one);
    const stale = heard(two.vt, 'stale');
    await reply(one.tavern, one.vt, (state) => { state.hp = 30; });
    await until(() => stale.length === 1);

    const report = await two.vt.chat.insist();

    assert.deepEqual(report.changed.map((/** @type {any} */ { key, after }) => [key, after]), [['hp', 50]]);
    assert.deepEqual(stale, [{ reason: 'tab' }, null]);
    await until(() => one.vt.chat.state.hp === 50);
});

test('a missed event is caught up', async (t) => {
    const one = await begin(t, { state: { hp: 50 }, options: { feed: false } });
    await one.server.ask(one.extensionId, `/chats/${one.vt.chat.id}/data`, { method: 'PUT', body: { key: 'hp', value: 10 } });
    assert.equal(one.vt.chat.state.hp, 50);

    await one.tavern.send('Go on.');
    await one.vt.chat.reconcile();

    assert.equal(one.vt.chat.state.hp, 10);
});

test('values of another extension can be read', async (t) => {
    const one = await begin(t, { state: { hp: 50 } });
    const two = await begin(t, { tavern: one.tavern, server: one.server });

    const other = two.vt.reading(one.extensionId);

    assert.deepEqual(await other.data(), { hp: 50 });
    assert.deepEqual((await other.chat()).data, { hp: 50 });
    assert.deepEqual(await other.instances(), []);
});
