/**
 * Ids of messages and swipes, through all that SillyTavern does with `extra`.
 */

import assert from 'node:assert/strict';
import { cp, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';

import { ValueTracker } from '../../../sillytavern/client/valuetracker.js';
import { begin, reply } from './begin.js';
import { Tavern } from './tavern.js';

/** @param {any} message */
const ids = (message) => message.extra.valuetracker;
/** @param {any} message */
const swipeIds = (message) => message.swipe_info.map((info) => info.extra.valuetracker.swipeId);

test('a message keeps its id and each swipe has its own, through the file and back', async (t) => {
    const { tavern, vt } = await begin(t);
    await tavern.send('Go on.');
    await tavern.swipe();
    await tavern.swipe();
    await vt.chat.reconcile();
    const message = tavern.chat[2];
    const before = structuredClone([ids(message), swipeIds(message)]);
    assert.equal(new Set(swipeIds(message)).size, 3);
    assert.equal(ids(message).swipeId, swipeIds(message)[2]);
    assert.deepEqual([...new Set(message.swipe_info.map((info) => info.extra.valuetracker.messageId))], [ids(message).messageId]);

    await tavern.reload();

    assert.deepEqual([ids(tavern.chat[2]), swipeIds(tavern.chat[2])], before);
});

test('several swipes that came at once get ids of their own', async (t) => {
    const { tavern, vt } = await begin(t, { state: { hp: 50 } });
    tavern.model = () => ['One.', 'Two.', 'Three.'];
    await reply(tavern, vt, (state) => { state.hp = 45; });

    await tavern.swipeTo(1);

    assert.equal(vt.chat.state.hp, 50);
    assert.equal(new Set(swipeIds(tavern.chat[2])).size, 3);
    await tavern.swipeTo(0);
    assert.equal(vt.chat.state.hp, 45);
});

test('other greetings are swipes of the same message', async (t) => {
    const tavern = new Tavern();
    tavern.greetings = ['Hello.', 'Good day.', 'Hi.'];
    const { vt } = await begin(t, { tavern });
    const { messageId } = vt.chat.anchor(0);
    vt.chat.state.mood = 'warm';
    await vt.chat.saved;

    await tavern.swipeTo(2);
    assert.equal(vt.chat.state.mood, undefined);
    assert.equal(vt.chat.messageId(0), messageId);
    await tavern.swipeTo(0);
    assert.equal(vt.chat.state.mood, 'warm');
});

test('an old chat without swipe entries gets ids that stay', async (t) => {
    const tavern = new Tavern();
    tavern.files.set('Old', {
        metadata: {},
        messages: [{ name: 'Seraphina', mes: 'Two.', swipe_id: 1, swipes: ['One.', 'Two.'] }, { name: 'User', is_user: true, mes: 'So.' }],
    });
    const { vt } = await begin(t, { tavern, file: 'Old' });
    vt.chat.set('hp', 45, { anchor: 0 });
    await vt.chat.saved;

    await tavern.swipeTo(0, 0);
    assert.equal(vt.chat.state.hp, undefined);
    await tavern.swipeTo(1, 0);
    assert.equal(vt.chat.state.hp, 45);
    await tavern.reload();
    assert.equal(vt.chat.state.hp, 45);
});

test('a copied message is another message', async (t) => {
    const { tavern, vt } = await begin(t);
    await reply(tavern, vt, () => vt.chat.increment('gold', 5));
    const first = vt.chat.messageId(2);

    await tavern.duplicate(2);
    await vt.chat.reconcile();

    assert.equal(vt.chat.messageId(2), first);
    assert.notEqual(vt.chat.messageId(3), first);
    assert.notEqual(vt.chat.swipeId(3), vt.chat.swipeId(2));
    await tavern.deleteMessage(2);
    assert.equal(vt.chat.state.gold, undefined);
});

test('a person\'s message has an id too', async (t) => {
    const { tavern, vt } = await begin(t);
    await tavern.send('Go on.');
    assert.equal(vt.chat.messageIndex(vt.chat.messageId(1)), 1);
    assert.equal(vt.chat.messageIndex('nobody'), -1);
    assert.throws(() => vt.chat.messageId(99), { code: 'message_not_found' });
});

test('two extensions, and two copies of the library, share the ids', async (t) => {
    const { tavern, vt, server } = await begin(t, { state: { hp: 50 } });
    // Another extension has its own copy of the library.
    const folder = await mkdtemp(join(tmpdir(), 'valuetracker-copy-'));
    t.after(() => rm(folder, { recursive: true }));
    await cp(new URL('../../../sillytavern/client', import.meta.url), folder, { recursive: true });
    const copy = await import(join(folder, 'valuetracker.js'));
    assert.notEqual(copy.ValueTracker, ValueTracker);
    const other = await copy.ValueTracker.connect({ extensionId: `${vt.extensionId}-other`, url: server.url, getContext: tavern.getContext });
    t.after(() => other.close());
    const same = () => tavern.chat.forEach((_, index) => assert.deepEqual(other.chat.anchor(index), vt.chat.anchor(index)));
    same();

    await tavern.sendWithTool('Hit me.', () => { other.chat.state.hp = 5; vt.chat.state.hp = 45; });
    await Promise.all([vt.chat.saved, other.chat.saved]);
    same();
    await tavern.swipe();
    same();
    assert.deepEqual([vt.chat.state.hp, other.chat.state.hp], [50, undefined]);
    await tavern.stream(['One ', 'two.'], { swipe: true, between: () => { other.chat.state.hp = 3; } });
    same();
    await tavern.swipeTo(0);
    assert.deepEqual([vt.chat.state.hp, other.chat.state.hp], [45, 5]);
    const parent = vt.chat.id;
    await tavern.branch(2);
    assert.deepEqual([vt.chat.origin.chatId, other.chat.origin.chatId], [parent, parent]);
});

test('an extension that was off when the chat branched still finds its parent', async (t) => {
    const { tavern, vt, server } = await begin(t);
    await tavern.send('Go on.');
    const second = `${vt.extensionId}-second`;
    const early = await ValueTracker.connect({ extensionId: second, url: server.url, getContext: tavern.getContext });
    early.chat.state.hp = 40;
    await early.chat.saved;
    await tavern.send('And on.');
    early.chat.state.hp = 30;
    await early.close();

    const branch = await tavern.branch(2);
    await tavern.send('Elsewhere.');
    await tavern.open('Tale');
    await tavern.open(branch);
    const late = await ValueTracker.connect({ extensionId: second, url: server.url, getContext: tavern.getContext });
    t.after(() => late.close());

    assert.equal(late.chat.state.hp, 40);
});

test('only the library\'s own property of the metadata is set', async (t) => {
    const tavern = new Tavern();
    await tavern.open('Tale');
    const { metadata } = tavern;
    metadata.note_prompt = 'keep';
    const { vt } = await begin(t, { tavern });

    assert.equal(tavern.metadata, metadata);
    assert.deepEqual(Object.keys(metadata).sort(), ['integrity', 'note_prompt', 'valuetracker']);
    const of = { integrity: metadata.integrity, name: 'Tale', owner: 'Seraphina.png' };
    assert.deepEqual(metadata.valuetracker, { chatId: metadata.integrity, of });
    assert.equal(vt.chat.id, metadata.integrity);
});
