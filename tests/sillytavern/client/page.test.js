/**
 * The library never damages SillyTavern's files.
 */

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Page } from '../../../sillytavern/client/tavern/page.js';
import { begin, reply } from './begin.js';
import { until } from './server.js';
import { Tavern } from './tavern.js';

/** @param {Tavern} tavern */
const inFile = (tavern, file = 'Tale') => tavern.files.get(file)?.messages.map(({ mes }) => mes);

test('ids of an old chat are saved as soon as it is open', async (t) => {
    const tavern = new Tavern();
    tavern.files.set('Old', { metadata: {}, messages: [{ mes: 'One.' }, { mes: 'Two.', is_user: true }] });
    await begin(t, { tavern, file: 'Old' });

    await until(() => tavern.files.get('Old')?.messages.every(({ extra }) => extra?.valuetracker?.messageId));
    assert.equal(tavern.files.get('Old')?.metadata.valuetracker.chatId, tavern.metadata.integrity);
});

test('a chat that is being emptied, swapped or swiped is not saved', async () => {
    const tavern = new Tavern();
    await tavern.open('Tale');
    tavern.greetings = [];
    tavern.files.set('Another tale', { metadata: { integrity: 'other' }, messages: [{ mes: 'Another.' }] });
    const page = new Page(tavern.getContext);
    const which = page.current();
    const before = tavern.saves;

    const messages = tavern.chat.splice(0);
    await page.save(which);
    assert.equal(tavern.saves, before);
    assert.deepEqual(inFile(tavern), ['Hello.']);

    // The file of one chat, the messages of another.
    tavern.file = 'Another tale';
    tavern.chat.push(...messages);
    await page.save(which);
    assert.equal(tavern.saves, before);
    tavern.file = 'Tale';
    const { metadata } = tavern;
    tavern.metadata = { integrity: 'other' };
    await page.save(which);
    assert.equal(tavern.saves, before);
    tavern.metadata = metadata;

    // A swipe that does not exist yet; saved once it does.
    Object.assign(tavern.chat[0], { swipe_id: 1, swipes: ['Hello.'] });
    await page.save(which);
    assert.equal(tavern.saves, before);
    tavern.chat[0].swipes.push('Hi.');
    await until(() => tavern.saves === before + 1);
});

test('a waiting save of one chat does not prevent a save of another', async () => {
    const tavern = new Tavern();
    await tavern.open('Tale');
    const page = new Page(tavern.getContext);
    page.saveSoon(60_000);
    await tavern.open('Another tale');
    const before = tavern.saves;

    page.saveSoon(0);

    await until(() => tavern.saves === before + 1);
});

test('the library saves no more often than it must', async (t) => {
    const { tavern, vt } = await begin(t, { state: { hp: 50 } });
    await until(() => tavern.files.get('Tale')?.metadata.valuetracker);
    const before = tavern.saves;

    await reply(tavern, vt, (state) => { state.hp = 45; });
    for (let times = 0; times < 20; times++) {
        vt.chat.state.hp -= 1;
        await vt.chat.saved;
    }

    // SillyTavern's own saves: one for the message, one for the reply.
    assert.equal(tavern.saves, before + 2);
});

test('the id of a message that gets no reply is saved', async (t) => {
    const { tavern } = await begin(t);
    tavern.model = () => { throw new Error('No model.'); };
    await assert.rejects(tavern.send('Hello?'));
    assert.equal(tavern.files.get('Tale')?.messages[1].extra.valuetracker, undefined);

    await tavern.eventSource.emit(tavern.eventTypes.GENERATION_ENDED, 2);

    await until(() => tavern.files.get('Tale')?.messages[1].extra.valuetracker);
});
