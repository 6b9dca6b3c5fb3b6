/**
 * Values follow what happens in SillyTavern.
 */

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { begin, heard, reply, watched } from './begin.js';
import { until } from './server.js';

test('a reply sets a value, a new swipe has the old value, and swiping back restores it', async (t) => {
    const { tavern, vt } = await begin(t, { state: { hp: 50 } });
    await reply(tavern, vt, (state) => { state.hp = 45; });

    let seen;
    tavern.model = () => { seen = vt.chat.state.hp; return 'Another.'; };
    await tavern.swipe();
    assert.equal(seen, 50);
    vt.chat.state.hp = 47;
    await vt.chat.saved;
    await tavern.swipeTo(0);
    assert.equal(vt.chat.state.hp, 45);
    await tavern.swipeTo(1);
    assert.equal(vt.chat.state.hp, 47);
});

test('a person\'s edit survives a swipe, and increments are counted again', async (t) => {
    const { tavern, vt } = await begin(t, { state: { gold: 100 } });
    await reply(tavern, vt, () => vt.chat.increment('gold', -30));

    await vt.chat.increment('gold', 10, { actor: 'user' });
    assert.equal(vt.chat.state.gold, 80);
    await tavern.swipe();
    assert.equal(vt.chat.state.gold, 110);
    await tavern.swipeTo(0);
    assert.equal(vt.chat.state.gold, 80);
});

test('a late write for an earlier reply does not replace what a later reply has set', async (t) => {
    const { tavern, vt } = await begin(t, { state: { hp: 50, gold: 1, curse: true } });
    await reply(tavern, vt, () => {});
    const early = vt.chat.anchor(tavern.chat.length - 1);
    await reply(tavern, vt, (state) => { state.hp = 40; delete state.curse; });

    const late = await vt.chat.batch((state) => { state.hp = 90; state.curse = 'old'; }, { anchor: early });
    assert.deepEqual(late.results, [{ value: 40, superseded: true }, { superseded: true }]);
    await vt.chat.increment('gold', 2, { anchor: early });
    assert.deepEqual(vt.chat.snapshot().data, { hp: 40, gold: 3 });
    await tavern.swipe();
    assert.deepEqual(vt.chat.snapshot().data, { hp: 90, gold: 3, curse: 'old' });
});

test('a swipe undoes only the changes of its message to an object', async (t) => {
    const { tavern, vt } = await begin(t, { state: { outfit: { top: 'coat' }, bag: ['rope'] } });
    await reply(tavern, vt, (state) => { state.outfit.hat = 'cap'; state.bag.push('lamp'); });
    await vt.chat.edit((state) => { state.outfit.shoes = 'boots'; state.bag.push('map'); });

    await tavern.swipe();

    assert.deepEqual(vt.chat.snapshot().data, { outfit: { top: 'coat', shoes: 'boots' }, bag: ['rope', 'map'] });
});

test('initial values have no anchor, in every handler', async (t) => {
    const { tavern, vt } = await begin(t);
    await reply(tavern, vt, () => {});

    vt.onChat(async (chat) => {
        chat.state.gold ??= 7;
        await chat.batch((state) => { state.outfit = { top: 'coat' }; });
        chat.state.late = true;
    }, { defaults: { hp: 100 } });
    await until(() => vt.chat.state.late);
    await vt.chat.saved;
    vt.chat.state.hp -= 5;
    await vt.chat.saved;
    await tavern.swipe();
    assert.deepEqual(vt.chat.snapshot().data, { hp: 100, gold: 7, outfit: { top: 'coat' } });
    await tavern.swipeTo(0);

    assert.deepEqual(vt.chat.snapshot().data, { hp: 95, gold: 7, outfit: { top: 'coat' }, late: true });
});

test('regenerating five times does not compound', async (t) => {
    const { tavern, vt } = await begin(t, { state: { hp: 50 } });
    await reply(tavern, vt, (state) => { state.hp -= 5; });
    for (let times = 0; times < 5; times++) {
        tavern.model = () => { assert.equal(vt.chat.state.hp, 50); return 'Again.'; };
        await tavern.regenerate();
        vt.chat.state.hp -= 5;
        await vt.chat.saved;
    }
    assert.equal(vt.chat.state.hp, 45);
});

test('deleting the last messages restores values, series and processed ids', async (t) => {
    const { tavern, vt } = await begin(t, { state: { hp: 50 } });
    await reply(tavern, vt, async (state) => { state.hp = 40; await vt.chat.series('recap').add('one'); });
    await reply(tavern, vt, async (state) => {
        state.hp = 30;
        await vt.chat.series('recap').add('two');
        await vt.chat.processed('recaps').mark('two');
    });

    await tavern.deleteLast(2);

    assert.equal(vt.chat.state.hp, 40);
    assert.equal((await vt.chat.series('recap').current()).content, 'one');
    assert.deepEqual(await vt.chat.processed('recaps').list(), []);
    await tavern.deleteLast(3);
    assert.equal(vt.chat.state.hp, 50);
    assert.equal(await vt.chat.series('recap').current(), null);
});

test('deleting a message in the middle undoes its changes', async (t) => {
    const { tavern, vt } = await begin(t, { state: { gold: 10 } });
    await reply(tavern, vt, () => vt.chat.increment('gold', 5));
    await reply(tavern, vt, () => vt.chat.increment('gold', 7));

    await tavern.deleteMessage(2);

    assert.equal(vt.chat.state.gold, 17);
});

test('deleting the visible swipe shows the values of the one that takes its place', async (t) => {
    const { tavern, vt } = await begin(t, { state: { hp: 50 } });
    await reply(tavern, vt, (state) => { state.hp = 45; });
    await tavern.swipe();
    vt.chat.state.hp = 47;
    await vt.chat.saved;
    await tavern.swipe();
    vt.chat.state.hp = 49;
    await vt.chat.saved;

    await tavern.deleteSwipe(2);
    assert.equal(vt.chat.state.hp, 47);
    await tavern.deleteSwipe(0);
    assert.equal(vt.chat.state.hp, 47);
    assert.equal(tavern.chat.at(-1).swipes.length, 1);
});

test('an edit of the text keeps the values and reports that the message is stale', async (t) => {
    const { tavern, vt } = await begin(t, { state: { hp: 50 } });
    await reply(tavern, vt, (state) => { state.hp = 45; });
    await vt.chat.reconcile();
    const reports = heard(vt, 'reconciled');

    await tavern.edit(2, 'Something else.');

    assert.equal(vt.chat.state.hp, 45);
    assert.deepEqual(reports.at(-1).reason, 'edit');
    assert.deepEqual(reports.at(-1).stale, [vt.chat.messageId(2)]);
});

test('a failed swipe restores the old value', async (t) => {
    const { tavern, vt } = await begin(t, { state: { hp: 50 } });
    await reply(tavern, vt, (state) => { state.hp = 45; });

    await tavern.swipeInVain();

    await until(() => vt.chat.state.hp === 45);
});

test('a tool call belongs to the reply that follows it', async (t) => {
    const { tavern, vt } = await begin(t, { state: { hp: 50 } });

    await tavern.sendWithTool('Hit me.', async () => {
        const { requests } = watched(t);
        vt.chat.state.hp = 45;
        await vt.chat.saved;
        // The write itself names the coming message.
        assert.deepEqual(requests.map(({ path }) => path.replace(/.*\//, '')), ['batch']);
    });
    assert.equal(vt.chat.state.hp, 45);
    const { items } = await vt.chat.history({ key: 'hp' });
    assert.equal(items[0].anchor.messageId, vt.chat.messageId(tavern.chat.length - 1));

    let seen;
    tavern.model = () => { seen = vt.chat.state.hp; return 'Another.'; };
    await tavern.swipe();
    assert.equal(seen, 50);
    await tavern.swipeTo(0);
    assert.equal(vt.chat.state.hp, 45);
});

test('a write for a reply that never arrived is undone', async (t) => {
    const { tavern, vt } = await begin(t, { state: { hp: 50 } });
    await tavern.send('Go on.');
    const { eventSource, eventTypes } = tavern;

    await eventSource.emit(eventTypes.GENERATION_AFTER_COMMANDS, 'normal', {}, false);
    vt.chat.state.hp = 45;
    await vt.chat.saved;
    assert.equal(vt.chat.state.hp, 45);
    await eventSource.emit(eventTypes.GENERATION_STOPPED);

    await until(() => vt.chat.state.hp === 50);
});

test('a streamed reply has one identity from its first piece on', async (t) => {
    const { tavern, vt } = await begin(t, { state: { hp: 50 } });
    await tavern.stream(['One ', 'two.'], { between: () => { vt.chat.state.hp -= 1; } });
    assert.equal(vt.chat.state.hp, 48);
    const first = vt.chat.anchor(1);

    await tavern.stream(['Three ', 'four.'], { swipe: true, between: () => { vt.chat.state.hp -= 10; } });
    assert.equal(vt.chat.state.hp, 30);
    const second = vt.chat.anchor(1);

    assert.equal(second.messageId, first.messageId);
    assert.notEqual(second.swipe, first.swipe);
    await tavern.swipeTo(0);
    assert.equal(vt.chat.state.hp, 48);
    await tavern.swipeTo(1);
    assert.equal(vt.chat.state.hp, 30);
});

test('dry runs, quiet prompts and continuations do not change the anchor of writes', async (t) => {
    const { tavern, vt } = await begin(t);
    await tavern.send('Go on.');
    const last = vt.chat.anchor(2);
    const { eventSource, eventTypes } = tavern;

    await eventSource.emit(eventTypes.GENERATION_AFTER_COMMANDS, 'normal', {}, true);
    assert.deepEqual(vt.chat.anchor(), last);
    for (const type of ['quiet', 'impersonate', 'continue']) {
        await eventSource.emit(eventTypes.GENERATION_AFTER_COMMANDS, type, {}, false);
        assert.deepEqual(vt.chat.anchor(), last);
    }
});

test('a branch has the values of its message, and both go on alone', async (t) => {
    const { tavern, vt } = await begin(t, { state: { hp: 50 } });
    await reply(tavern, vt, (state) => { state.hp = 40; });
    await reply(tavern, vt, (state) => { state.hp = 30; });
    const parent = vt.chat.id;

    await tavern.branch(2);
    assert.notEqual(vt.chat.id, parent);
    assert.equal(vt.chat.origin.chatId, parent);
    assert.equal(vt.chat.state.hp, 40);
    await tavern.swipe();
    assert.equal(vt.chat.state.hp, 50);
    vt.chat.state.hp = 20;
    await vt.chat.saved;

    await tavern.open('Tale');
    assert.equal(vt.chat.id, parent);
    assert.equal(vt.chat.state.hp, 30);
});

for (const [text, options, differs] of /** @type {const} */ ([
    ['its old swipe', { swipe: 0 }, false],
    ['its new swipe', {}, true],
])) {
    test(`a branch that begins with a checkpoint has its values, whatever the message became: ${text}`, async (t) => {
        const { server, tavern, vt, extensionId } = await begin(t, { state: { hp: 50 } });
        const other = await begin(t, { tavern, server, state: { hp: 5 } });
        await reply(tavern, vt, (state) => { state.hp = 45; });
        await vt.chat.checkpoints.create({ name: 'Here', message: 2 });
        await tavern.swipe();
        await vt.batch((state) => { state.hp = 48; });
        await reply(tavern, vt, (state) => { state.hp = 10; });
        const parent = vt.chat.id;

        const end = vt.chat.branches.beginNextWith('Here');
        await tavern.branch(2, options);
        end();

        assert.equal(vt.chat.state.hp, 45);
        assert.deepEqual(vt.chat.begun, { checkpoint: 'Here', differs });
        assert.equal(vt.chat.origin.checkpoint, 'Here');
        assert.equal((await server.ask(extensionId, `/chats/${vt.chat.id}/data`)).hp, 45);
        assert.equal((await server.ask(extensionId, `/chats/${parent}/data`)).hp, 10);
        // Each extension has its own checkpoints: others have the values of the message.
        assert.equal(other.vt.chat.state.hp, 5);
        assert.equal(other.vt.chat.begun, null);

        // It continues as any chat, and starts no branch when it is loaded again.
        await reply(tavern, vt, (state) => { state.hp = 44; });
        await tavern.deleteLast(2);
        assert.equal(vt.chat.state.hp, 45);
        await tavern.save();
        await tavern.open(tavern.file ?? '');
        assert.equal(vt.chat.state.hp, 45);
        assert.equal(vt.chat.begun, null);
        // The next branch is an ordinary one.
        await tavern.open('Tale');
        await tavern.branch(2);
        assert.equal(vt.chat.state.hp, 48);
    });
}

test('without its checkpoint a branch has the values of its message', async (t) => {
    const { tavern, vt } = await begin(t, { state: { hp: 50 } });
    await reply(tavern, vt, (state) => { state.hp = 45; });
    const errors = heard(vt, 'error');

    vt.chat.branches.beginNextWith('Nowhere');
    await tavern.branch(2);

    assert.equal(vt.chat.state.hp, 45);
    assert.deepEqual(errors.map(({ code }) => code), ['checkpoint_not_found']);
});

test('a branch at another swipe has that swipe\'s values', async (t) => {
    const { tavern, vt } = await begin(t, { state: { hp: 50 } });
    await reply(tavern, vt, (state) => { state.hp = 40; });
    await tavern.swipe();
    vt.chat.state.hp = 30;
    await vt.chat.saved;

    await tavern.branch(2, { swipe: 0 });

    assert.equal(vt.chat.state.hp, 40);
});

test('a renamed chat keeps its values', async (t) => {
    const { tavern, vt } = await begin(t, { state: { hp: 50 } });
    await reply(tavern, vt, (state) => { state.hp = 40; });
    const { id } = vt.chat;

    await tavern.rename('The same tale');

    assert.equal(vt.chat.id, id);
    assert.equal(vt.chat.state.hp, 40);
    await tavern.swipe();
    assert.equal(vt.chat.state.hp, 50);
});

test('a file that was copied is a branch of the other, and each goes on alone', async (t) => {
    const { tavern, vt } = await begin(t, { state: { hp: 50 } });
    await reply(tavern, vt, (state) => { state.hp = 40; });
    await tavern.save();
    const original = vt.chat.id;
    tavern.files.set('Copy', structuredClone(/** @type {any} */ (tavern.files.get('Tale'))));
    const { fetch } = globalThis;
    globalThis.fetch = async (url, init) => (url !== '/api/characters/chats' ? await fetch(url, init)
        : Response.json([...tavern.files.keys()].map((name) => ({ file_name: `${name}.jsonl` }))));
    t.after(() => { globalThis.fetch = fetch; });

    await tavern.open('Copy');
    const copy = vt.chat.id;
    assert.notEqual(copy, original);
    assert.deepEqual(vt.chat.snapshot().data, { hp: 40 });
    await vt.chat.edit((state) => { state.only = 'copy'; });
    await tavern.swipe();
    assert.deepEqual(vt.chat.snapshot().data, { hp: 50, only: 'copy' });
    await tavern.save();
    await tavern.open('Tale');
    assert.equal(vt.chat.id, original);
    assert.deepEqual(vt.chat.snapshot().data, { hp: 40 });

    // It keeps its id, also under another name, and what is branched from it is its child.
    await tavern.open('Copy');
    assert.equal(vt.chat.id, copy);
    await tavern.rename('Second tale');
    assert.equal(vt.chat.id, copy);
    await tavern.branch(2);
    assert.deepEqual([vt.chat.origin?.chatId, vt.chat.state.only], [copy, 'copy']);
});

test('a new group\'s greetings do not touch the chat that was open', async (t) => {
    const { server, tavern, vt, extensionId } = await begin(t, { state: { hp: 50 } });
    await reply(tavern, vt, (state) => { state.hp = 40; });
    const { id } = vt.chat;

    await tavern.openGroup('A meeting');
    assert.notEqual(vt.chat.id, id);
    vt.chat.state.hp = 7;
    await vt.chat.saved;
    await reply(tavern, vt, (state) => { state.hp = 6; });
    await tavern.swipe();
    assert.equal(vt.chat.state.hp, 7);

    assert.deepEqual(await server.ask(extensionId, `/chats/${id}/data`), { hp: 40 });
    await tavern.open('Tale');
    assert.equal(vt.chat.state.hp, 40);
});

test('a chat that is emptied for a reload keeps its values', async (t) => {
    const { tavern, vt } = await begin(t, { state: { hp: 50 } });
    await reply(tavern, vt, (state) => { state.hp = 40; });
    const reports = heard(vt, 'reconciled');

    const reloaded = tavern.reload();
    vt.chat.state.mood = 'calm';
    await reloaded;

    assert.equal(vt.chat.state.hp, 40);
    assert.equal(vt.chat.state.mood, 'calm');
    assert.deepEqual(reports.filter(({ dormant, revived }) => dormant || revived), []);
});

test('a message that was moved without an event is noticed at the next save', async (t) => {
    const { tavern, vt } = await begin(t);
    await reply(tavern, vt, (state) => { state.hp = 40; });
    const reports = heard(vt, 'reconciled');
    await tavern.move(1, 2);

    vt.chat.state.mood = 'calm';
    await vt.chat.saved;

    assert.equal(reports.length, 1);
    assert.equal(vt.chat.state.hp, 40);
});

test('the state as of a message, and a checkpoint there', async (t) => {
    const { tavern, vt } = await begin(t, { state: { hp: 50 } });
    await reply(tavern, vt, (state) => { state.hp = 40; });
    await reply(tavern, vt, (state) => { state.hp = 30; });

    assert.deepEqual((await vt.chat.at({ message: 2 })).data, { hp: 40 });
    const made = await vt.chat.checkpoints.create({ name: 'before', message: 2 });
    assert.equal(made.messageId, vt.chat.messageId(2));
    assert.equal((await vt.chat.checkpoints.restore('before', { dryRun: true })).changed, 1);
    assert.equal(vt.chat.state.hp, 30);
    await vt.chat.checkpoints.restore('before');
    assert.equal(vt.chat.state.hp, 40);
});

test('messages are handled after the chat is loaded, a group\'s greetings too, and writes belong to them', async (t) => {
    const { tavern, vt } = await begin(t, { state: { hp: 50 } });
    /** @type {any[]} */
    const seen = [];
    vt.onChat((chat) => seen.push(chat?.state.hp), { defaults: { hp: 100 } });
    const off = vt.onMessage((index, type) => {
        seen.push([index, type]);
        vt.chat.state.hp -= 10;
    });

    await tavern.openGroup('Party');
    await vt.chat.saved;
    assert.deepEqual(seen, [50, 100, [0, 'first_message'], [1, 'first_message']]);
    assert.equal(vt.chat.state.hp, 80);
    const { items } = await vt.chat.history({ key: 'hp', order: 'asc' });
    assert.deepEqual(items.map(({ anchor }) => anchor?.messageId), [undefined, vt.chat.messageId(0), vt.chat.messageId(1)]);

    await tavern.send('Go on.');
    assert.deepEqual(seen.at(-1), [3, 'normal']);
    off();
    await tavern.send('Go on.');
    assert.deepEqual(seen.at(-1), [3, 'normal']);
    assert.equal(vt.chat.state.hp, 70);
});

test('a write to a hidden swipe tells the caller', async (t) => {
    const { tavern, vt } = await begin(t, { state: { hp: 50 } });
    const told = heard(vt, 'saved');
    await reply(tavern, vt, (state) => { state.hp = 45; });
    const hidden = vt.chat.anchor(2);
    await tavern.swipe();

    assert.equal((/** @type {any} */ (await vt.chat.set('hp', 40, { anchor: hidden }))).live, false);
    await until(() => told.at(-1).live === false);
    assert.equal(vt.chat.state.hp, 50);
    const { live, results } = await vt.chat.batch((state) => { state.hp = 30; }, { anchor: hidden });
    assert.deepEqual([live, results[0].live], [false, false]);
    // Of writes that are sent together, only those that have no effect.
    const both = [vt.chat.set('gold', 1), vt.chat.set('hp', 20, { anchor: hidden })];
    assert.deepEqual((await Promise.all(both)).map((/** @type {any} */ one) => one.live), [undefined, false]);
    vt.chat.state.gold = 2;
    assert.equal((await vt.chat.saved).live, true);
    await tavern.swipeTo(0);
    assert.equal(vt.chat.state.hp, 20);
});

test('the chat of a deleted file is archived, and one of the same name is not', async (t) => {
    const { tavern, vt } = await begin(t, { state: { hp: 50 } });
    const { id } = vt.chat;
    const listed = async () => (await vt.request('GET', '/chats')).body.map((/** @type {any} */ chat) => chat.chatId);
    await tavern.open('Another');
    const { id: another } = vt.chat;
    await tavern.deleteFile('Unknown', 'Another');
    assert.deepEqual(await listed(), [id, another]);

    await tavern.deleteFile('Tale', 'Another');
    await until(async () => (await listed()).length === 1);
    assert.deepEqual(await listed(), [another]);

    // The open chat: SillyTavern opens another one before it tells.
    await tavern.deleteFile('Another', 'Third');
    await until(async () => !(await listed()).includes(another));
    assert.deepEqual(await listed(), [vt.chat.id]);
});
