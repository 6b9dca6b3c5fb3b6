/**
 * The live object by itself, and the operations for its changes.
 */

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { ABSENT, applied, copyJson, operationsFor, patchFor, plainJson } from '../../../sillytavern/client/state/json.js';
import { Live } from '../../../sillytavern/client/state/live.js';

/** @param {Record<string, any>} data */
function live(data) {
    /** @type {any[]} */
    const writes = [];
    const made = new Live(data, { onRead: () => {}, onWrite: (key, assigned) => writes.push([key, assigned]) });
    return { live: made, state: made.state, writes };
}

test('it looks like an ordinary object', () => {
    const { state } = live({ hp: 5, bag: ['rope', { lamp: 1 }], none: null });

    assert.equal(JSON.stringify(state), '{"hp":5,"bag":["rope",{"lamp":1}],"none":null}');
    assert.deepEqual(Object.keys(state), ['hp', 'bag', 'none']);
    assert.deepEqual(Object.entries(state.bag[1]), [['lamp', 1]]);
    assert.deepEqual({ ...state.bag[1] }, { lamp: 1 });
    assert.equal('hp' in state, true);
    assert.equal('toString' in state, false);
    assert.equal(state.constructor, undefined);
    assert.equal(Array.isArray(state.bag), true);
    assert.deepEqual(state.bag.map((item) => typeof item), ['string', 'object']);
    assert.equal(state.bag.indexOf(state.bag[1]), 1);
    assert.equal(state.bag, state.bag);
    assert.equal(state.missing?.deeper, undefined);
});

test('a write at any depth reports its key', () => {
    const { state, writes } = live({ outfit: { top: { colour: 'red' } }, bag: [[1]] });

    state.outfit.top.colour = 'blue';
    state.bag[0].push(2);
    state.hp = 1;
    delete state.outfit.top;

    assert.deepEqual([...new Set(writes.map(String))], ['outfit,false', 'bag,false', 'hp,true']);
    assert.equal(JSON.stringify(state), '{"outfit":{},"bag":[[1,2]],"hp":1}');
});

test('assigned values are copied', () => {
    const { state } = live({});
    const mine = { top: ['coat'] };

    state.outfit = mine;
    mine.top.push('cape');
    state.spare = state.outfit;
    state.spare.top.push('hat');

    assert.equal(JSON.stringify(state), '{"outfit":{"top":["coat"]},"spare":{"top":["coat","hat"]}}');
});

test('lists can be sorted, spliced, cut and filled', () => {
    const { state } = live({ bag: [3, 1, 2] });

    state.bag.sort();
    state.bag.splice(1, 1, 'x', 'y');
    state.bag.unshift(0);
    state.bag.pop();
    state.bag.length = 3;
    state.bag[4] = 'far';
    state.bag.reverse();

    assert.deepEqual([...state.bag], ['far', null, 'x', 1, 0]);
    assert.throws(() => { state.bag.name = 'lost'; }, TypeError);
});

test('undefined removes, and values that are not JSON are refused before anything changes', () => {
    const { state, writes } = live({ hp: 5, gone: 1 });

    state.gone = undefined;
    writes.length = 0;
    /** @type {any} */
    const loop = {};
    loop.loop = loop;
    for (const bad of [NaN, Infinity, () => {}, Symbol('s'), 2n ** 64n, loop, new Map(), '\ud800', { deep: [NaN] }]) {
        assert.throws(() => { state.hp = bad; }, TypeError);
    }
    assert.throws(() => { state[Symbol('s')] = 1; }, TypeError);
    assert.throws(() => { state[''] = 1; }, TypeError);
    assert.throws(() => { state['a\nb'] = 1; }, TypeError);
    assert.throws(() => Object.setPrototypeOf(state, {}), TypeError);
    assert.throws(() => Object.defineProperty(state, 'x', { get: () => 1 }), TypeError);

    assert.deepEqual(writes, []);
    assert.equal(JSON.stringify(state), '{"hp":5}');
    state.when = new Date(0);
    assert.equal(state.when, '1970-01-01T00:00:00.000Z');
});

test('__proto__ and constructor are keys like any other', () => {
    const { state, live: made } = live(JSON.parse('{"__proto__":{"polluted":1}}'));

    state.constructor = { prototype: { polluted: 2 } };
    state.outfit = JSON.parse('{"__proto__":{"polluted":3},"hasOwnProperty":1}');
    state.outfit['__proto__'].polluted = 4;
    made.put('__proto__', { polluted: 5 });

    assert.equal(/** @type {any} */ ({}).polluted, undefined);
    assert.equal(JSON.stringify(state), '{"__proto__":{"polluted":5},"constructor":{"prototype":{"polluted":2}},"outfit":{"__proto__":{"polluted":4},"hasOwnProperty":1}}');
    assert.deepEqual(Object.keys(plainJson(state)), ['__proto__', 'constructor', 'outfit']);
    assert.equal(Object.getPrototypeOf(plainJson(state)), Object.prototype);
    const [operation] = operationsFor('outfit', copyJson({}), copyJson(JSON.parse('{"__proto__":{"x":1}}')), false);
    assert.equal(JSON.stringify(operation), '{"op":"merge","key":"outfit","value":{"__proto__":{"x":1}}}');
    assert.equal(JSON.stringify(applied(copyJson({}), operation)), '{"__proto__":{"x":1}}');
});

test('an update from elsewhere keeps held objects live', () => {
    const { state, live: made, writes } = live({ outfit: { top: { colour: 'red' } }, bag: [{ rope: 1 }, { lamp: 1 }] });
    const { top } = state.outfit;
    const [rope, lamp] = state.bag;

    made.put('outfit', { top: { colour: 'blue', size: 1 } });
    made.put('bag', [{ rope: 2 }]);

    assert.deepEqual(writes, []);
    assert.equal(top.colour, 'blue');
    assert.equal(rope.rope, 2);
    top.size = 2;
    assert.equal(state.outfit.top.size, 2);
    assert.throws(() => { lamp.lamp = 2; }, { name: 'StaleStateError', code: 'stale_state' });
    made.put('outfit', 'naked');
    assert.throws(() => { top.size = 3; }, { name: 'StaleStateError' });
});

test('a change of a key becomes the smallest operation', () => {
    const cases = [
        [ABSENT, 5, true, [{ op: 'set', value: 5 }]],
        [5, 5, true, [{ op: 'set', value: 5 }]],
        [5, ABSENT, true, [{ op: 'remove' }]],
        [ABSENT, ABSENT, true, []],
        [{ a: 1 }, { a: 1 }, false, []],
        [{ a: 1, b: 2 }, { a: 1, c: 3 }, false, [{ op: 'merge', value: { c: 3, b: null } }]],
        [{ a: { b: 1, c: 2 } }, { a: { b: 1, c: 3 } }, false, [{ op: 'merge', value: { a: { c: 3 } } }]],
        [{ a: 1 }, { a: null }, false, [{ op: 'set', value: { a: null } }]],
        [{ a: 1 }, { a: { b: null } }, false, [{ op: 'set', value: { a: { b: null } } }]],
        [{ a: 1 }, { a: [null] }, false, [{ op: 'merge', value: { a: [null] } }]],
        [{ a: 1 }, { a: 2 }, true, [{ op: 'set', value: { a: 2 } }]],
        [[1], [1, 2, { x: 3 }], false, [{ op: 'append', value: 2 }, { op: 'append', value: { x: 3 } }]],
        [[1, 2], [2], false, [{ op: 'set', value: [2] }]],
        [[1, 2], [0, 2, 3], false, [{ op: 'set', value: [0, 2, 3] }]],
    ];
    for (const [before, after, assigned, expected] of /** @type {any[]} */ (cases)) {
        const said = operationsFor('k', before, after, assigned);
        assert.deepEqual(JSON.parse(JSON.stringify(said)), expected.map(({ op, ...rest }) => ({ op, key: 'k', ...rest })));
        if (said.length === 0) continue;
        const made = said.reduce((value, operation) => applied(value, operation), before);
        assert.deepEqual(made === ABSENT ? ABSENT : plainJson(made), after);
    }
});

test('a small change inside a large value is a patch of what changed', () => {
    const items = Array.from({ length: 200 }, (_, index) => ({ name: `item ${index}`, 'a/b~c': index, tags: [1, 2] }));
    /** @type {Array<[(list: any[]) => void, any]>} */
    const cases = [
        [(list) => { list[3].name = 'rope'; }, [{ op: 'replace', path: '/3/name', value: 'rope' }]],
        [(list) => { list[3]['a/b~c'] = null; }, [{ op: 'replace', path: '/3/a~1b~0c', value: null }]],
        [(list) => { list.splice(7, 1); }, [{ op: 'remove', path: '/7' }]],
        [(list) => { list.splice(7, 0, 'new'); }, [{ op: 'add', path: '/7', value: 'new' }]],
        [(list) => { delete list[0].tags; list[9].tags.push(3); }, [{ op: 'remove', path: '/0/tags' }, { op: 'add', path: '/9/tags/2', value: 3 }]],
    ];
    for (const [change, expected] of cases) {
        for (const inside of [(/** @type {any} */ list) => list, (/** @type {any} */ list) => ({ list, other: null })]) {
            const [before, after] = [copyJson(inside(items)), copyJson(inside(items))];
            change(after.list ?? after);
            const prefix = after.list ? '/list' : '';

            const said = operationsFor('k', before, after, false);

            const value = expected.map((/** @type {any} */ one) => ({ ...one, path: prefix + one.path }));
            assert.deepEqual(JSON.parse(JSON.stringify(said)), [{ op: 'patch', key: 'k', value }]);
            assert.deepEqual(plainJson(applied(before, said[0])), plainJson(after));
        }
    }
    // If most of it changed, the whole is sent.
    const other = items.map(({ name }) => `other ${name}`);
    assert.equal(operationsFor('k', copyJson(items), copyJson(other), false)[0].op, 'set');
    // A field beside a long list is merged.
    const [before, after] = [{ list: items, hp: 1 }, { list: items, hp: 2 }];
    assert.deepEqual(JSON.parse(JSON.stringify(operationsFor('k', before, after, false))), [{ op: 'merge', key: 'k', value: { hp: 2 } }]);
});

test('a patch leads from any value to any other', () => {
    let seed = 7;
    const random = (/** @type {number} */ below) => {
        seed = (seed * 48271) % 2147483647;
        return seed % below;
    };
    /** @returns {any} */
    const value = (depth = 0) => {
        const kind = random(depth < 3 ? 5 : 3);
        if (kind === 3) return Array.from({ length: random(5) }, () => value(depth + 1));
        if (kind === 4) return Object.fromEntries(Array.from({ length: random(4) }, () => [['a', 'b', '~', '/', ''][random(5)], value(depth + 1)]));
        return [null, random(3), 'x'][kind];
    };
    for (let round = 0; round < 3000; round++) {
        const [before, after] = [value(), value()];
        const made = applied(copyJson(before), { op: 'patch', value: patchFor(before, after) });
        assert.deepEqual(plainJson(made), after);
    }
    for (const [before, path] of [[ABSENT, '/a'], [1, '/a'], [[], '/1'], [{}, '/a/b']]) {
        assert.throws(() => applied(before, { op: 'patch', value: [{ op: 'add', path, value: 1 }] }), { code: 'patch_failed' });
    }
});
