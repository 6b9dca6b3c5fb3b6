/**
 * The six golden rules for state that belongs to a chat, as the library keeps them.
 */

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { begin, watched } from './begin.js';

test('golden rule 1: fetch once per chat session, on CHAT_CHANGED', async (t) => {
    const { tavern, vt } = await begin(t, { state: { hp: 50, outfit: { top: 'coat' } } });
    const { requests } = watched(t);

    await tavern.open('Another tale');
    await tavern.open('Tale');
    for (let reads = 0; reads < 100; reads++) assert.equal(vt.chat.state.outfit.top, 'coat');

    assert.deepEqual(requests.filter(({ path }) => path.endsWith('/open')).length, 2);
    assert.deepEqual(requests.filter(({ method, path }) => method === 'GET' && !path.startsWith('/changes')), []);
});

test('golden rule 2: save every time you mutate', async (t) => {
    const { server, vt, extensionId } = await begin(t, { state: { hp: 50, outfit: { top: 'coat' }, bag: ['rope'] } });

    vt.chat.state.hp -= 5;
    await vt.chat.saved;
    vt.chat.state.outfit.top = 'cape';
    await vt.chat.saved;
    vt.chat.state.bag.push('lamp');
    await vt.chat.saved;
    delete vt.chat.state.hp;
    await vt.chat.saved;

    const data = await server.ask(extensionId, `/chats/${vt.chat.id}/data`);
    assert.deepEqual(data, { outfit: { top: 'cape' }, bag: ['rope', 'lamp'] });
});

test('golden rule 3: cache the reference, it is live for the whole session', async (t) => {
    const { vt } = await begin(t, { state: { outfit: { top: 'coat' } } });

    const { state } = vt.chat;
    const { outfit } = state;
    vt.chat.state.outfit.top = 'cape';
    await vt.chat.saved;

    assert.equal(outfit.top, 'cape');
    assert.equal(state.outfit, outfit);
    assert.equal(vt.chat.state, state);
});

test('golden rule 4: do not store references across chat changes: they throw', async (t) => {
    const { server, tavern, vt, extensionId } = await begin(t, { state: { outfit: { top: 'coat' } } });
    const { chat } = vt;
    const { state } = chat;
    const { outfit } = state;

    await tavern.open('Another tale');

    const stale = { name: 'StaleChatError', code: 'stale_chat' };
    assert.throws(() => chat.state, stale);
    assert.throws(() => state.outfit, stale);
    assert.throws(() => outfit.top, stale);
    assert.throws(() => { outfit.top = 'cape'; }, stale);
    assert.throws(() => chat.increment('hp'), stale);
    assert.throws(() => chat.saved, stale);
    await assert.rejects(async () => chat.batch(() => {}), stale);
    await assert.rejects(chat.history(), stale);
    await assert.rejects(chat.insertOnce(0, { id: 'x', content: 'y' }), stale);
    assert.deepEqual(await server.ask(extensionId, `/chats/${vt.chat.id}/data`), {});
});

test('golden rule 5: use idempotency markers when inserting into message text', async (t) => {
    const { tavern, vt } = await begin(t);
    await tavern.send('Draw a cat.');

    const first = await vt.chat.insertOnce(2, { id: 'cat-1', content: '<img src="cat.png">' });
    const again = await vt.chat.insertOnce(2, { id: 'cat-1', content: '<img src="cat.png">' });

    assert.deepEqual([first.inserted, first.already, again.inserted, again.already], [true, false, false, true]);
    assert.equal(vt.chat.hasMarker(2, 'cat-1'), true);
    assert.equal(tavern.chat[2].mes.match(/<img/g).length, 1);
    assert.equal(tavern.chat[2].swipes[0], tavern.chat[2].mes);
});

test('golden rule 6: run reconciliation after insertion to verify that content persisted', async (t) => {
    const { tavern, vt } = await begin(t);
    await tavern.send('Draw a cat.');
    await vt.chat.insertOnce(2, { id: 'cat-1', content: '<img src="cat.png">' });
    tavern.chat[2].mes = 'Somebody else wrote this.';

    assert.deepEqual(await vt.chat.reconcileMessage(2), { missingCount: 1, restoredCount: 1, errors: [] });
    assert.deepEqual(await vt.chat.reconcileMessage(2), { missingCount: 0, restoredCount: 0, errors: [] });

    assert.equal(vt.chat.hasMarker(2, 'cat-1'), true);
    assert.match(tavern.chat[2].mes, /^Somebody else wrote this\..*cat\.png/s);
});
