/**
 * Series, processed ids, operations, checkpoints and branches.
 */

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { begin, reply } from './begin.js';

test('series: numbered versions with one that is current', async (t) => {
    const { vt } = await begin(t);
    const recap = vt.chat.series('recap/of scenes');

    assert.equal(await recap.current(), null);
    assert.deepEqual(await recap.list(), { currentVersion: null, versions: [] });
    assert.deepEqual(await recap.add('one', { scenes: 1 }), { version: 1 });
    assert.deepEqual(await recap.add({ text: 'two' }), { version: 2 });
    assert.equal((await recap.current()).version, 2);
    assert.equal((await recap.get(1)).scenes, 1);
    assert.deepEqual(await recap.setCurrent(1), { currentVersion: 1 });
    assert.deepEqual((await recap.remove(1)).currentVersion, 2);
    assert.deepEqual(await recap.clear(), { clearedCount: 1 });
    await assert.rejects(recap.get(1), { code: 'version_not_found', status: 404 });
});

test('processed ids: claimed once, marked, forgotten', async (t) => {
    const { vt } = await begin(t);
    const recaps = vt.chat.processed('recaps');

    assert.deepEqual(await recaps.claim(['a', 'b/c']), { new: ['a', 'b/c'], seen: [] });
    assert.deepEqual(await recaps.claim(['a', 'd'], { leaseMs: 60_000 }), { new: ['d'], seen: ['a'] });
    assert.equal(await recaps.has('d'), false);
    assert.deepEqual(await recaps.mark('d'), { processed: true, already: false });
    assert.equal(await recaps.has('b/c'), true);
    await recaps.forget('a');
    assert.deepEqual(await recaps.list(), ['b/c', 'd']);
});

test('operations: queued, claimed, ended; a checkpoint waits for them', async (t) => {
    const { vt } = await begin(t, { state: { hp: 50 } });
    const { operations, checkpoints } = vt.chat;

    await operations.add({ id: 'low', type: 'recap', priority: 1 });
    await operations.add({ id: 'high', type: 'recap', priority: 2, data: { scene: 1 } });
    await assert.rejects(operations.add({ id: 'low', type: 'recap' }), { code: 'operation_exists' });
    const claimed = await operations.claim(60_000);
    assert.deepEqual([claimed.id, claimed.status], ['high', 'in_progress']);
    assert.equal((await operations.update('high', { stage: 'half', claim: claimed.claim })).stage, 'half');
    await assert.rejects(checkpoints.create({ name: 'now' }), {
        code: 'operations_pending', message: /Cannot create checkpoint: 2 operations in queue/,
    });
    assert.equal((await checkpoints.create({ name: 'soon', whenReady: true })).status, 'waiting');
    await operations.complete('high', { claim: claimed.claim });
    await operations.cancel('low');
    assert.equal(await operations.claim(1000), null);
    assert.deepEqual((await operations.list('completed')).map(({ id }) => id), ['high']);
    assert.equal((await operations.get('low')).status, 'cancelled');
    assert.deepEqual((await checkpoints.list()).map(({ name, status }) => [name, status]), [['soon', 'ready']]);
    assert.equal((await operations.add({ id: 'third', type: 'recap' })).status, 'pending');
    assert.equal((await operations.fail('third')).status, 'failed');
    assert.deepEqual(await operations.cleanup(), { removedCount: 0, ids: [] });
});

test('checkpoints: made, checked, compared, restored, removed', async (t) => {
    const { vt } = await begin(t, { state: { hp: 50 } });
    const { checkpoints } = vt.chat;
    const made = await checkpoints.create({ name: 'fifty', expect: { keys: ['hp', 'mana'] }, meta: { why: 'test' } });
    assert.equal(made.warnings.length, 1);

    await vt.chat.edit((state) => { state.hp = 10; });
    assert.equal((await checkpoints.validate('fifty')).success, true);
    assert.deepEqual((await checkpoints.diff('fifty')).map(({ key, before, after }) => [key, before, after]), [['hp', 50, 10]]);
    const report = await checkpoints.restore('fifty');

    assert.deepEqual([report.success, report.changed, vt.chat.state.hp], [true, 1, 50]);
    assert.deepEqual((await checkpoints.get('fifty')).meta, { why: 'test' });
    await checkpoints.remove('fifty');
    assert.deepEqual(await checkpoints.list(), []);
});

test('branches: made at a message, and known to their parent', async (t) => {
    const { server, tavern, vt, extensionId } = await begin(t, { state: { hp: 50 } });
    await reply(tavern, vt, (state) => { state.hp = 40; });
    await reply(tavern, vt, (state) => { state.hp = 30; });

    const branch = await vt.chat.branches.create({ message: 2 });

    assert.equal(branch.parent, vt.chat.id);
    assert.deepEqual(await server.ask(extensionId, `/chats/${branch.chatId}/data`), { hp: 40 });
    const lineage = await vt.chat.branches.lineage();
    assert.deepEqual(lineage?.branches.map(({ chatId }) => chatId), [branch.chatId]);
});

test('earlier writes are saved before a series is written', async (t) => {
    const { vt } = await begin(t, { state: { hp: 50 } });

    vt.chat.state.hp = 10;
    await vt.chat.checkpoints.create({ name: 'ten' });
    vt.chat.state.hp = 5;
    const { items } = await vt.chat.history({ key: 'hp' });

    assert.deepEqual(items.map(({ after }) => after), [5, 10, 50]);
    assert.deepEqual((await vt.chat.at((await vt.chat.checkpoints.get('ten')).revision)).data, { hp: 10 });
});
