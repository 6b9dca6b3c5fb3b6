/**
 * Integers that do not fit a JavaScript number.
 */

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { exactText, parseExact, sum } from '../../../sillytavern/client/state/exact.js';
import { begin, heard } from './begin.js';
import { Server, until } from './server.js';

const BIG = 9007199254740993n;
const EXACT = { options: { exactIntegers: true } };

/**
 * Return the bytes of a chat's data, without parsing numbers.
 *
 * @param {Server} server
 * @param {string} extensionId
 * @param {string} chatId
 */
async function bytes(server, extensionId, chatId) {
    const answer = await fetch(`${server.url}/chats/${chatId}/data`, { headers: { 'x-extension-id': extensionId } });
    return await answer.text();
}

for (const text of [
    '9007199254740993', '-9223372036854775808', '[18446744073709551615,1.5,"9007199254740993"]',
    '{"9007199254740993":"\\"9007199254740993","a":{"b":[9007199254740993]}}', '["\\\\",9007199254740993,"\\\\"]', '1', '"a"', 'null',
]) {
    test(`${text} is read and written as it is`, () => {
        assert.equal(exactText(parseExact(text)), text);
    });
}

for (const text of ['09007199254740993', '[9007199254740993', '"9007199254740993', '9007199254740993-', '+9007199254740993']) {
    test(`${text} is no JSON`, () => {
        assert.throws(() => parseExact(text), SyntaxError);
    });
}

test('an integer that fits a number stays a number', () => {
    assert.deepEqual(parseExact('[9007199254740991, 9007199254740993.0, 1e20, 0.1234567890123456789]'), [2 ** 53 - 1, 2 ** 53, 1e20, 0.1234567890123456789]);
    assert.deepEqual([sum(BIG, -2), sum(BIG, 1), sum(1, 2), sum(BIG, 0.5)], [2 ** 53 - 1, BIG + 1n, 3, 2 ** 53]);
    assert.equal(exactText(undefined), '');
});

test('they are read and written exactly, also in a list of which another item changes', async (t) => {
    const { server, vt, extensionId } = await begin(t, EXACT);
    const changes = heard(vt, 'change');
    const { chat } = vt;

    chat.state.id = BIG;
    chat.state.bag = [{ id: BIG, count: 1 }];
    await chat.saved;
    chat.state.bag[0].count = 2;
    await chat.saved;
    assert.deepEqual(await chat.increment('id', 2), { value: BIG + 2n });
    assert.equal(await bytes(server, extensionId, chat.id), '{"id":9007199254740995,"bag":[{"id":9007199254740993,"count":2}]}');

    // Values of another client are exact too.
    const told = changes.length;
    await fetch(`${server.url}/chats/${chat.id}/data`, {
        method: 'PUT', headers: { 'x-extension-id': extensionId, 'content-type': 'application/json' }, body: '{"key":"id","value":18446744073709551615}',
    });
    await until(() => changes.length > told);
    assert.equal(chat.state.id, 2n ** 64n - 1n);
    assert.equal((await chat.history({ key: 'id' })).items[0].after, 2n ** 64n - 1n);
    assert.throws(() => chat.increment('id', 1), TypeError);
    assert.equal(chat.state.id, 2n ** 64n - 1n);
});

test('without `exactIntegers` they are read as numbers, and can still be written', async (t) => {
    const { server, vt, extensionId } = await begin(t);

    assert.deepEqual(await vt.chat.set('id', BIG), { value: Number(BIG) });
    assert.deepEqual(await vt.chat.set('small', 5n), { value: 5 });

    assert.equal(await bytes(server, extensionId, vt.chat.id), '{"id":9007199254740993,"small":5}');
});

test('they are kept in the chat while the server is away, in a form that SillyTavern can save', async (t) => {
    const server = await Server.start(t);
    const { tavern, vt, extensionId } = await begin(t, { server, ...EXACT });
    await vt.chat.set('id', BIG);
    const moved = heard(vt, 'moved');
    await server.down('SIGKILL');

    await vt.chat.set('id', BIG + 2n);
    await vt.chat.set('bag', [BIG]);
    await vt.chat.set('hp', 5);
    await vt.flush();
    const [{ rows }] = tavern.files.get('Tale')?.metadata.valuetracker.away ?? [];
    assert.deepEqual(rows.map((/** @type {any} */ { value, base }) => [value, base]), [
        ['9007199254740995', '9007199254740993'], ['[9007199254740993]', undefined], [5, undefined],
    ]);
    assert.equal(vt.chat.state.id, BIG + 2n);
    await tavern.open('Tale');
    assert.deepEqual([vt.chat.state.id, vt.chat.state.bag[0]], [BIG + 2n, BIG]);

    await server.up();
    await until(() => moved.length);
    assert.equal(await bytes(server, extensionId, vt.chat.id), '{"id":9007199254740995,"bag":[9007199254740993],"hp":5}');
});
