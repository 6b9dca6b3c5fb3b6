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

test('operations: renewed, tried again, in order, paused, removed', async (t) => {
    const { vt } = await begin(t);
    const { operations } = vt.chat;

    assert.equal((await operations.add({ id: 'draft', type: 'draft', maxAttempts: 2, retryAfterMs: 0 })).created, true);
    assert.equal((await operations.add({ id: 'draft', type: 'draft', ifAbsent: true })).created, false);
    await operations.add({ id: 'print', type: 'print', dependsOn: ['draft'] });
    assert.equal(await operations.claim(60_000, { types: ['print', 'bind'] }), null);
    assert.deepEqual(await operations.pause(), { paused: true });
    assert.equal(await operations.claim(60_000), null);
    assert.deepEqual(await operations.resume(), { paused: false });

    const { claim, leaseUntil } = await operations.claim(60_000);
    assert.ok((await operations.renew('draft', { claim, leaseMs: 120_000 })).leaseUntil > leaseUntil);
    await assert.rejects(operations.complete('draft'), { code: 'stale_claim', status: 409 });
    assert.equal((await operations.fail('draft', { claim })).status, 'retrying');
    const second = await operations.claim(60_000, { types: ['draft'] });
    assert.equal((await operations.fail('draft', { claim: second.claim })).status, 'failed');
    assert.equal((await operations.get('print')).status, 'failed');
    const retried = await operations.retry('draft');
    assert.deepEqual([retried.status, retried.attempts, retried.maxAttempts], ['pending', 2, 3]);
    await operations.complete('draft');
    assert.equal((await operations.retry('print')).status, 'pending');
    assert.deepEqual(await operations.remove('print'), { success: true });
    await assert.rejects(operations.get('print'), { code: 'operation_not_found' });
});

test('operations: cancelled with the message they work on', async (t) => {
    const { vt, tavern } = await begin(t);
    const { operations } = vt.chat;
    const status = async (/** @type {string} */ id) => (await operations.get(id)).status;
    await reply(tavern, vt, () => {});

    const added = await operations.add({ id: 'recap', type: 'recap' }, { anchor: tavern.chat.length - 1 });
    await operations.add({ id: 'of all', type: 'recap' });
    assert.deepEqual(added.anchor, vt.chat.anchor(tavern.chat.length - 1));
    await tavern.swipe();
    assert.deepEqual([await status('recap'), await status('of all')], ['cancelled', 'pending']);

    await operations.add({ id: 'recap', type: 'recap' }, { anchor: tavern.chat.length - 1 });
    assert.equal(await status('recap'), 'pending');
    await tavern.deleteLast(1);
    assert.equal(await status('recap'), 'cancelled');

    await reply(tavern, vt, () => {});
    await operations.add({ id: 'recap', type: 'recap' }, { anchor: tavern.chat.length - 1 });
    await tavern.deleteLast(1);
    assert.deepEqual([await status('recap'), await status('of all')], ['cancelled', 'pending']);
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

test('checkpoints: recorded in detail, read whole, refused when they do not validate, forced', async (t) => {
    const { vt } = await begin(t, { state: { hp: 50, recap: { text: 'They met.', messages: 3 } } });
    const { checkpoints, operations } = vt.chat;
    await vt.chat.series('recap').add('one', { scenes: 1 });
    const made = await checkpoints.create({ name: 'here', capture: [{ key: 'recap', fields: ['messages'] }] });
    assert.deepEqual(made.state.capture.map((/** @type {any} */ one) => [one.key, one.fields]), [['recap', { messages: 3 }]]);
    assert.equal(made.state.series.recap.versions[0].scenes, 1);

    await vt.chat.edit((state) => { state.hp = 10; });
    await vt.chat.series('recap').add('two');
    const state = await checkpoints.state('here');
    assert.deepEqual([state.data.hp, state.series.recap.versions.map(({ content }) => content)], [50, ['one']]);
    const wrong = { series: { recap: 2 } };
    assert.equal((await checkpoints.validate('here', wrong)).success, false);
    await assert.rejects(checkpoints.restore('here', { actual: wrong }), { code: 'checkpoint_invalid', status: 409 });

    await operations.add({ id: 'job', type: 'recap' });
    const tried = await checkpoints.restore('here', { dryRun: true });
    assert.deepEqual(tried.changes?.find(({ key }) => key === 'hp'), { instanceId: null, key: 'hp', before: 10, after: 50 });
    assert.equal(vt.chat.state.hp, 10);
    await operations.complete('job');
    const forced = await checkpoints.restore('here', { actual: wrong, force: true });
    assert.deepEqual([forced.errors.length, vt.chat.state.hp], [1, 50]);
});

test('branches: made from a checkpoint, with its record', async (t) => {
    const { server, vt, extensionId } = await begin(t, { state: { hp: 50 } });
    await vt.chat.series('recap').add('one');
    await vt.chat.checkpoints.create({ name: 'here' });
    const wrong = { series: { recap: 2 } };

    await assert.rejects(vt.chat.branches.create({ checkpoint: 'here', actual: wrong }), { code: 'checkpoint_invalid' });
    const branch = await vt.chat.branches.create({ checkpoint: 'here', actual: wrong, force: true });

    assert.deepEqual([branch.errors?.length, branch.warnings], [1, []]);
    assert.deepEqual(await vt.chat.validate(), { success: true, validated: false, errors: [], warnings: [] });
    const { origin } = await server.ask(extensionId, `/chats/${branch.chatId}/state`);
    assert.deepEqual([origin.record.name, origin.record.versions], ['here', { recap: 1 }]);
});

test('one key, or the whole chat, is restored to a revision', async (t) => {
    const { vt } = await begin(t, { state: { hp: 50, mana: 5 } });
    const before = vt.chat.revision;
    await vt.chat.edit((state) => { Object.assign(state, { hp: 10, mana: 1, late: true }); });
    const sword = await vt.chat.addInstance({ id: 'the/sword', characterId: 'arthur' });
    const { revision } = await vt.chat.edit(() => { sword.state.edge = 'keen'; });
    await vt.chat.edit(() => { sword.state.edge = 'dull'; });

    const changes = [{ instanceId: null, key: 'hp', before: 10, after: 50 }];
    assert.deepEqual((await vt.chat.restoreKey('hp', before, { dryRun: true })).changes, changes);
    assert.equal(vt.chat.state.hp, 10);
    assert.equal((await vt.chat.restoreKey('hp', before)).changed, 1);
    await vt.chat.restoreKey('late', before);
    await vt.chat.restoreKey('edge', revision, { instanceId: 'the/sword' });

    assert.deepEqual(vt.chat.snapshot().data, { hp: 50, mana: 1 });
    assert.equal(vt.chat.instance('the/sword').state.edge, 'keen');
    const tried = await vt.chat.restore(before, { dryRun: true });
    assert.deepEqual([tried.changed, tried.changes?.length, vt.chat.state.mana], [2, 2, 1]);
});

test('series and processed ids are read in the past', async (t) => {
    const { tavern, vt } = await begin(t);
    const recap = vt.chat.series('recap');
    const scenes = vt.chat.processed('scenes');
    await reply(tavern, vt, async () => { await recap.add('one'); await scenes.claim(['a']); });
    const at = `message:${vt.chat.messageId(tavern.chat.length - 1)}`;
    await reply(tavern, vt, async () => { await recap.add('two'); await scenes.claim(['b']); });

    assert.deepEqual([(await recap.list({ at })).currentVersion, (await recap.list()).currentVersion], [1, 2]);
    assert.deepEqual([(await recap.current({ at })).content, (await recap.get(1, { at })).content], ['one', 'one']);
    assert.deepEqual([await scenes.list({ at }), await scenes.has('b', { at }), await scenes.has('b')], [['a'], false, true]);
    assert.equal(await recap.current({ at: 0 }), null);
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
