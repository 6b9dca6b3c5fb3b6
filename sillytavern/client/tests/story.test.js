/**
 * Values follow what happens in SillyTavern.
 */

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { begin } from './begin.js';

test('a reply sets a value, a new swipe sees the old one, and swiping back brings it back', async (t) => {
    const { tavern, vt } = await begin(t, { state: { hp: 50 } });
    await reply(tavern, vt, (state) => { state.hp = 45; });
    assert.equal(vt.chat.state.hp, 45);

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

async function reply(tavern, vt, fn) {
    await tavern.send('Go on.');
    fn(vt.chat.state);
    await vt.chat.saved;
}
