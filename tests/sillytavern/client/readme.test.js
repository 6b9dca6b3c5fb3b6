/**
 * The examples of the README, run as they stand there.
 */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

import { ValueTracker } from '../../../sillytavern/client/valuetracker.js';
import { begin, commonServer } from './begin.js';
import { Tavern } from './tavern.js';

const README = readFileSync(new URL('../../../sillytavern/client/README.md', import.meta.url), 'utf8');
const [FIVE_MINUTES, MORE, OUTSIDE] = [...README.matchAll(/```js\n(.*?)```/gs)].map(([, code]) => code);
const AsyncFunction = /** @type {any} */ (async () => {}).constructor;

/**
 * Run an example with the names that it takes from around it, and return `vt`.
 *
 * @param {string} code
 * @param {Record<string, any>} given
 */
function run(code, given) {
    const body = `${code.replace(/^import .*$/m, '')}\nreturn vt;`;
    return new AsyncFunction(...Object.keys(given), body)(...Object.values(given));
}

/** The library as an extension has it in its page. @param {any} options */
function inPage(options) {
    return { connect: (/** @type {any} */ given) => ValueTracker.connect({ saveMs: [0, 0], ...given, ...options }) };
}

test('five minutes', async (t) => {
    const { url } = await commonServer();
    const tavern = new Tavern();
    await tavern.open('Tale');
    /** @type {number[]} */
    const drawn = [];
    const vt = await run(FIVE_MINUTES, {
        ValueTracker: inPage({ url, getContext: tavern.getContext }),
        SillyTavern: { getContext: tavern.getContext },
        draw: (/** @type {any} */ state) => drawn.push(state.hp),
        damageIn: (/** @type {string} */ text) => Number(/(\d+) damage/.exec(text)?.[1] ?? 0),
    });
    t.after(() => vt.close());
    assert.deepEqual([vt.chat.state.hp, vt.chat.state.bag.length], [100, 0]);

    tavern.model = async () => 'You take 30 damage.';
    await tavern.send('I strike.');
    await vt.chat.saved;
    assert.equal(vt.chat.state.hp, 70);
    tavern.model = async () => 'You duck.';
    await tavern.swipe();
    await vt.chat.saved;
    assert.equal(vt.chat.state.hp, 100);
    await tavern.swipeTo(0);
    assert.equal(vt.chat.state.hp, 70);
    assert.equal(drawn.at(-1), 70);
});

test('more', async (t) => {
    const server = await commonServer();
    const { vt, tavern } = await begin(t, { state: { hp: 50 } });
    for (const extensionId of ['outfits', 'weather']) await new ValueTracker({ extensionId, url: server.url, getContext: null }).request('POST', '/register', { body: { extensionId } });
    for (let round = 0; round < 6; round++) await tavern.send('And on.');
    // A branch has an origin, and can be validated.
    await tavern.branch(12);
    const { revision } = await vt.chat.edit((/** @type {any} */ state) => { state.hp = 45; });
    await vt.chat.edit((/** @type {any} */ state) => { state.hp = 40; });

    await run(MORE, { vt, revision, ids: ['a', 'b'], draw: () => {} });

    assert.equal((await vt.chat.series('recap').current()).content, 'They met.');
    assert.deepEqual(await vt.chat.processed('scenes').claim(['a', 'c']), { new: ['c'], seen: ['a'] });
    assert.deepEqual((await vt.chat.checkpoints.list()).map(({ name }) => name), ['before the duel']);
    assert.equal(vt.chat.state.hp, 45);
});

test('outside SillyTavern', async (t) => {
    const { url } = await commonServer();
    const vt = await run(OUTSIDE, { ValueTracker: inPage({ url }) });
    t.after(() => vt.close());

    assert.equal(vt.chat.state.hp, undefined);
    await vt.chat.reconcile([{ messageId: 'm1', swipe: '0' }]);
    assert.equal(vt.chat.state.hp, 45);
});
