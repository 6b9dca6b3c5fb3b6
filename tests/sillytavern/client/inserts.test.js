/**
 * Text in messages.
 */

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { changePercent, withoutInserts } from '../../../sillytavern/client/tavern/markers.js';
import { begin, heard } from './begin.js';
import { until } from './server.js';

test('content is inserted at the given position', async (t) => {
    const { tavern, vt } = await begin(t);
    tavern.model = () => 'A tag, and an end.';
    for (const [position, expected] of /** @type {any[]} */ ([
        ['end', 'A tag, and an end.[X]'], ['start', '[X]A tag, and an end.'], [{ after: 'tag' }, 'A tag[X], and an end.'],
        [{ before: 'tag' }, 'A [X]tag, and an end.'], [{ replace: 'tag' }, 'A [X], and an end.'],
    ])) {
        await tavern.send('Go on.');
        const index = tavern.chat.length - 1;
        await vt.chat.insertOnce(index, { id: 'x', content: '[X]', position });
        assert.equal(tavern.chat[index].mes.replace(/<!--.*?-->/g, ''), expected);
        assert.equal(tavern.files.get('Tale')?.messages[index].mes, tavern.chat[index].mes);
    }
});

test('a text that changed before the insertion is reported, with the percentage', async (t) => {
    const { tavern, vt } = await begin(t, { options: { insertionDelayMs: 20 } });
    tavern.model = () => 'Draw: <cat>';
    await tavern.send('Go on.');

    const pending = vt.chat.insertOnce(2, { id: 'x', content: '[X]', position: { after: '<cat>' }, originalText: 'Draw: <cat>' });
    tavern.chat[2].mes = 'Draw: <dog>';
    const report = await pending;

    assert.equal(report.inserted, true);
    assert.equal(report.modified, true);
    assert.equal(report.changePercent, 50);
    assert.equal(report.warnings.length, 2);
    assert.match(tavern.chat[2].mes, /^Draw: <dog>.*\[X\]/);
});

test('the percentage of a text that changed', () => {
    assert.equal(changePercent('same', 'same'), 0);
    assert.equal(changePercent('', ''), 0);
    assert.equal(changePercent('', 'new'), 100);
    assert.equal(changePercent('a b c d', 'a b X d'), 25);
    assert.equal(changePercent('a b c d', 'X a b c d'), 20);
    // Two small changes far apart are small.
    const words = Array.from({ length: 200 }, (_, index) => `w${index}`);
    assert.equal(changePercent(words.join(' '), ['first', ...words.slice(1, -1), 'last'].join(' ')), 1);
    assert.equal(changePercent('a b', 'b a'), 50);
    assert.equal(changePercent('same', ' same\n'), 1);
    const many = 'word '.repeat(5000);
    assert.equal(changePercent(many, `${many}${'more '.repeat(5000)}`), 50);
});

test('nothing is inserted into a message that was swiped away or deleted', async (t) => {
    const { tavern, vt } = await begin(t, { options: { insertionDelayMs: 20 } });
    await tavern.send('Go on.');
    await tavern.swipe();

    const swiped = vt.chat.insertOnce(2, { id: 'x', content: '[X]' });
    await tavern.swipeTo(0);
    assert.equal((await swiped).inserted, false);
    // Awaited by `rejects` from the start: it may be refused while the message is still being deleted.
    const refused = assert.rejects(vt.chat.insertOnce(2, { id: 'x', content: '[X]' }), { code: 'stale_chat' });
    await tavern.deleteLast(1);
    await refused;
    await assert.rejects(vt.chat.insertOnce(2, { id: 'x', content: '[X]' }), { code: 'message_not_found' });
});

test('inserts belong to the swipe', async (t) => {
    const { tavern, vt } = await begin(t);
    await tavern.send('Go on.');
    await vt.chat.insertOnce(2, { id: 'one', content: '[1]' });

    await tavern.swipe();
    assert.equal(vt.chat.hasMarker(2, 'one'), false);
    assert.deepEqual(await vt.chat.reconcileMessage(2), { missingCount: 0, restoredCount: 0, errors: [] });
    await tavern.swipeTo(0);
    assert.equal(vt.chat.hasMarker(2, 'one'), true);
    tavern.chat[2].mes = 'Wiped.';
    assert.deepEqual(await vt.chat.reconcileMessage(2), { missingCount: 1, restoredCount: 1, errors: [] });
});

test('what an edit, an update or another extension removes comes back by itself', async (t) => {
    const { tavern, vt } = await begin(t);
    const { eventSource, eventTypes } = tavern;
    await tavern.send('Go on.');
    await vt.chat.insertOnce(2, { id: 'one', content: '[1]' });

    await tavern.edit(2, 'Wiped.');
    await until(() => vt.chat.hasMarker(2, 'one'));
    assert.equal(withoutInserts(tavern.chat[2].mes), 'Wiped.');
    for (const name of ['MESSAGE_RECEIVED', 'MESSAGE_UPDATED', 'MESSAGE_EDITED']) {
        tavern.chat[2].mes = `Wiped by ${name}.`;
        await eventSource.emit(eventTypes[name], 2, 'normal');
        await until(() => vt.chat.hasMarker(2, 'one'));
        assert.equal(tavern.chat[2].mes.replace(/<!--.*?-->/g, ''), `Wiped by ${name}.[1]`);
        await until(() => tavern.files.get('Tale')?.messages[2].mes === tavern.chat[2].mes);
    }
    assert.deepEqual(await vt.chat.reconcileMessage(2), { missingCount: 0, restoredCount: 0, errors: [] });
});

test('the record survives a wiped `extra`, also in another session', async (t) => {
    const { tavern, vt } = await begin(t);
    await tavern.send('Go on.');
    await vt.chat.insertOnce(2, { id: 'one', content: '[1]' });

    // Of the message alone, with its text.
    tavern.chat[2].extra = {};
    tavern.chat[2].mes = 'Rewritten.';
    assert.deepEqual(await vt.chat.reconcileMessage(2), { missingCount: 1, restoredCount: 1, errors: [] });
    assert.equal(tavern.chat[2].mes.replace(/<!--.*?-->/g, ''), 'Rewritten.[1]');

    // Of all swipes, with the content, and the chat is loaded again.
    tavern.chat[2].extra = {};
    tavern.chat[2].swipe_info = [];
    tavern.chat[2].mes = 'Rewritten.';
    await tavern.save();
    await tavern.reload();
    assert.deepEqual(await vt.chat.reconcileMessage(2), { missingCount: 1, restoredCount: 1, errors: [] });
    assert.equal(tavern.chat[2].mes.replace(/<!--.*?-->/g, ''), 'Rewritten.[1]');
    assert.deepEqual(tavern.chat[2].extra.valuetracker.inserts, [{ extensionId: vt.extensionId, id: 'one', content: '[1]', position: 'end' }]);

    // A copy in `extra` is enough, too.
    delete tavern.metadata.valuetracker.inserts;
    tavern.chat[2].mes = 'Once more.';
    assert.deepEqual(await vt.chat.reconcileMessage(2), { missingCount: 1, restoredCount: 1, errors: [] });
});

test('extensions do not touch each other\'s insertions, and odd ids do no harm', async (t) => {
    const one = await begin(t);
    const two = await begin(t, { tavern: one.tavern, server: one.server });
    await one.tavern.send('Go on.');
    await one.vt.chat.insertOnce(2, { id: 'a --> b', content: '[1]' });
    await two.vt.chat.insertOnce(2, { id: 'a --> b', content: '[2]' });
    assert.equal(one.tavern.chat[2].mes.replace(/<!--.*?-->/g, ''), 'A reply.[1][2]');
    assert.equal(withoutInserts(one.tavern.chat[2].mes), 'A reply.');

    one.tavern.chat[2].mes = 'Wiped.';
    assert.equal((await one.vt.chat.reconcileMessage(2)).restoredCount, 1);

    assert.equal(one.tavern.chat[2].mes.replace(/<!--.*?-->/g, ''), 'Wiped.[1]');
});

test('an insertion does not make the message stale', async (t) => {
    const { tavern, vt } = await begin(t);
    await tavern.send('Go on.');
    vt.chat.state.hp = 45;
    await vt.chat.saved;
    const reports = heard(vt, 'reconciled');

    await vt.chat.insertOnce(2, { id: 'x', content: '[X]' });
    await tavern.edit(2, tavern.chat[2].mes);
    await tavern.edit(2, `${tavern.chat[2].mes} More.`);

    assert.deepEqual(reports.map(({ stale }) => stale), [[vt.chat.messageId(2)]]);
});
