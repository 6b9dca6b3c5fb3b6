/** Names of values, and values of typed text. */

import assert from 'node:assert/strict';
import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';

// As installed: the client is in the folder of the extension.
const installed = mkdtempSync(join(tmpdir(), 'valuetracker-'));
after(() => rmSync(installed, { recursive: true }));
cpSync(new URL('../../../sillytavern/extension', import.meta.url), installed, { recursive: true });
cpSync(new URL('../../../sillytavern/client', import.meta.url), join(installed, 'client'), { recursive: true });
cpSync(new URL('package.json', import.meta.url), join(installed, 'package.json'));

const { ABSENT, canSetField, isKey, locate, lookUp } = await import(join(installed, 'values/paths.js'));
const { fitting, listed } = await import(join(installed, 'values/fitting.js'));
const { ailments } = await import(join(installed, 'values/diagnosis.js'));
const { asInput, asText, brokenJson, withoutMacros, kindOf, looksTyped, narrowed, read } = await import(join(installed, 'values/typed.js'));

const chat = { id: null, names: [], data: { hp: 5, 'a.b': 'dotted', a: { b: 'inside', c: [1, { d: null }] }, mira: { hp: 1 } } };
const mira = { id: '7', names: ['mira', 'Mira v.2', '7'], data: { hp: 9, bag: { lamp: true } } };
const owners = [chat, mira];
/** A character without values. */
const bob = { id: '', names: ['Bob'], data: {} };

for (const [path, value] of [
    ['hp', 5],
    ['a.b', 'dotted'],
    ['a.c.0', 1],
    ['a.c.1.d', null],
    ['a.c.length', 2],
    ['mira.hp', 1],
    ['mira.bag.lamp', true],
    ['7.hp', 9],
    ['Mira v.2.hp', 9],
    ['HP', 5],
    ['MIRA.BAG.Lamp', true],
    ['mira.gone', ABSENT],
    ['gone', ABSENT],
    ['', ABSENT],
    ['a.', ABSENT],
    ['.a', ABSENT],
    ['toString', ABSENT],
    ['a.constructor', ABSENT],
    ['__proto__', ABSENT],
    ['hp.toFixed', ABSENT],
]) {
    test(`${JSON.stringify(path)} is looked up`, () => {
        assert.deepEqual(lookUp(owners, path), value);
    });
}

for (const [path, id, keys] of [
    ['hp', null, ['hp']],
    ['new', null, ['new']],
    ['new.one', null, ['new.one']],
    ['a.new', null, ['a', 'new']],
    ['a.b', null, ['a.b']],
    ['a.c.0', null, ['a', 'c', '0']],
    ['a.c.2', null, ['a', 'c', '2']],
    ['a.c.1.e', null, ['a', 'c', '1', 'e']],
    ['Bob.hp', '', ['hp']],
    ['Bob.v.hp', '', ['v.hp']],
    ['Bob', null, ['Bob']],
    ['7.hp', '7', ['hp']],
    ['7.new', '7', ['new']],
    ['7.bag.new', '7', ['bag', 'new']],
]) {
    test(`${path} is written where it is, or would be`, () => {
        const found = locate([...owners, bob], path);
        assert.deepEqual([found.owner.id, found.keys], [id, keys]);
    });
}

for (const [kind, typed, found] of [
    ['text', '5', { value: '5' }],
    ['text', '', { value: '' }],
    ['number', ' -1.5e3 ', { value: -1500 }],
    ['number', '0', { value: 0 }],
    ['number', '', { problem: 'notANumber' }],
    ['number', '1,5', { problem: 'notANumber' }],
    ['number', '0x10', { problem: 'notANumber' }],
    ['number', 'Infinity', { problem: 'notANumber' }],
    ['number', '1e999', { problem: 'notANumber' }],
    ['number', '9007199254740993', { value: 9007199254740993n }],
    ['number', '-9223372036854775808', { value: -(2n ** 63n) }],
    ['number', '18446744073709551615', { value: 2n ** 64n - 1n }],
    ['number', '18446744073709551616', { problem: 'notExact' }],
    ['number', '9007199254740993.5', { problem: 'notExact' }],
    ['number', '09007199254740993', { problem: 'notANumber' }],
    ['switch', 'true', { value: true }],
    ['switch', 'false', { value: false }],
    ['nothing', 'x', { value: null }],
    ['json', '[1, "2", null]', { value: [1, '2', null] }],
    ['json', '[9007199254740993, "9007199254740993"]', { value: [9007199254740993n, '9007199254740993'] }],
    ['json', '{"9007199254740993": -9007199254740993}', { value: { '9007199254740993': -9007199254740993n } }],
    ['json', '["\\"9007199254740993", 0.1234567890123456789]', { value: ['"9007199254740993', 0.1234567890123456789] }],
    ['json', '[18446744073709551616]', { problem: 'notExact' }],
    ['json', '['.repeat(129) + ']'.repeat(129), { problem: 'tooDeep' }],
    ['auto', '5', { value: 5 }],
    ['auto', '"5"', { value: '5' }],
    ['auto', 'five', { value: 'five' }],
    ['auto', '9007199254740993', { value: 9007199254740993n }],
    ['auto', '18446744073709551616', { problem: 'notExact' }],
    ['auto', '{"n": 18446744073709551616}', { problem: 'notExact' }],
    ['auto', '[1', { value: '[1' }],
]) {
    test(`${kind}: ${typed.slice(0, 20)}`, () => {
        assert.deepEqual(read(kind, typed), found);
    });
}

test('invalid JSON is reported with the reason', () => {
    const { problem, error } = read('json', '[1,');
    assert.equal(problem, 'notJson');
    assert.ok(error.length > 0);
});

test('a value that is edited and left as it was is the same value', () => {
    for (const value of [5, 9007199254740993n, [{ id: 2n ** 63n }, '9007199254740993'], -0.5, '5', '', 'a\nb', true, false, null, [], {}, { b: 1, a: ['2'] }, JSON.parse('{"__proto__": 1}')]) {
        const kind = kindOf(value);
        assert.deepEqual(read(kind, asInput(kind, value)), { value });
    }
});

test('text stays text, everything else is JSON, and neither is a macro', () => {
    assert.equal(asText('5'), '5');
    assert.equal(asText({ a: [1] }), '{"a":[1]}');
    assert.deepEqual(read('auto', '"{{user}}"'), { value: '{{user}}' });
    assert.ok(!withoutMacros('{{{{user}}}}').includes('{{'));
});

test('an index of a list may be at most its length', () => {
    assert.deepEqual(['0', '2', '3', '-1', '02', 'x'].map((field) => canSetField([1, 2], field)), [true, true, false, false, false, false]);
    assert.ok(canSetField({}, 'x'));
});

test('a key is short and on one line', () => {
    assert.deepEqual(['hp', 'x'.repeat(1024), '', 'a\nb', 'x'.repeat(1025)].map(isKey), [true, true, false, false, false]);
});

test('text that looks like another kind of value is detected', () => {
    assert.deepEqual(['5', '"5"', 'null', '18446744073709551616', 'five', '[1'].map(looksTyped), [true, true, true, true, false, false]);
});

for (const [before, after, path, from, to] of [
    [1, 2, [], 1, 2],
    [{ a: 1, b: 2 }, { a: 1, b: 3 }, ['b'], 2, 3],
    [{ a: { b: [1, 2] } }, { a: { b: [1, 5] } }, ['a', 'b', '1'], 2, 5],
    [{ a: 1 }, { a: 1, b: 2 }, ['b'], undefined, 2],
    [{ a: 1, b: 2 }, { a: 2, b: 3 }, [], { a: 1, b: 2 }, { a: 2, b: 3 }],
    [{ a: 1 }, [1], [], { a: 1 }, [1]],
]) {
    test(`the change from ${JSON.stringify(before)} to ${JSON.stringify(after)} is narrowed`, () => {
        assert.deepEqual(narrowed(before, after), { path, before: from, after: to });
    });
}

test('a text that begins like JSON and is none is noticed', () => {
    for (const text of ['{bad json', '["lamp', '[1,']) assert.notEqual(brokenJson(text), '');
    for (const text of ['{"a":1}', '[1]', 'plain', '{{user}}', '[tired]', '5', '']) assert.equal(brokenJson(text), '');
});

for (const [before, value, kept] of [
    [undefined, '40', 40],
    [undefined, '007', '007'],
    [undefined, 'wary', 'wary'],
    [undefined, [1], [1]],
    [null, '40', 40],
    [50, '40', 40],
    [50, ' +5', 5],
    [50, null, null],
    ['5', '6', '6'],
    [true, 'False', false],
    [['lamp'], '["rope"]', ['rope']],
    [{ a: 1 }, '{"b": 2}', { b: 2 }],
]) {
    test(`${JSON.stringify(value)} for ${JSON.stringify(before)} is kept as ${JSON.stringify(kept)}`, () => {
        assert.deepEqual(fitting(before, value), { value: kept });
    });
}

for (const [before, value] of [
    [50, 'many'], [50, true], [50, [1]], ['5', 6], ['wary', true], [true, 'maybe'], [true, 1], [['lamp'], 'rope'],
    [['lamp'], { a: 1 }], [{ a: 1 }, [1]], [{ a: 1 }, '[1]'],
]) {
    test(`${JSON.stringify(value)} for ${JSON.stringify(before)} has another type`, () => {
        assert.equal(fitting(before, value), null);
    });
}

test('values are listed with their types, the told ones with their values', () => {
    const values = [{ name: 'hp', value: 45, told: true }, { name: 'secret', value: 'x', told: false }, { name: 'bag of Ann', value: ['a'.repeat(200)], told: true }];
    assert.equal(listed(values), `hp (number): 45; secret (text); bag of Ann (list): ["${'a'.repeat(78)}…`);
    assert.equal(listed([]), '');
    assert.match(listed(Array.from({ length: 53 }, (_, index) => ({ name: `k${index}`, value: 1, told: true }))), /k49 \(number\): 1; and 3 more$/);
});

for (const [found, names] of /** @type {Array<[any, string[]]>} */ ([
    [{}, []],
    [{ backup: { error: 'Full.', overdue: true } }, ['backupFailed']],
    [{ backup: { overdue: true, failed: 1 } }, ['backupOverdue']],
    [{ backup: { failed: 1, hook: 3 } }, ['backupPartly']],
    [{ backup: { hook: 3 }, large: 2 }, ['hookFailed', 'grownLarge']],
    [{ backup: { hook: 0 }, large: 2, full: 1 }, ['quotaReached']],
])) {
    test(`a server that is not well: ${JSON.stringify(found)}`, async () => {
        const backup = { lastAt: null, failed: 0, hook: null, error: null, overdue: false, ...found.backup };
        const vt = { request: async () => ({ body: { large: 0, full: 0, ...found, backup } }) };
        assert.deepEqual(await ailments(vt), names);
    });
}
