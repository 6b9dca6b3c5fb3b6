/**
 * A random walk of player actions: the value is always the sum of the changes of the visible messages
 * and of the player.
 */

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { begin } from './begin.js';

const STEPS = Number(process.env.VALUETRACKER_SOAK ? 1500 : 150);

for (const seed of [1, 2, 3]) {
    test(`a long evening with a story, number ${seed}`, async (t) => {
        const random = numbers(seed);
        const pick = (/** @type {any[]} */ list) => list[Math.floor(random() * list.length)];
        const { tavern, vt, server } = await begin(t);
        const { vt: other } = await begin(t, { tavern, server });
        /** The changes of each text in a chat, and of the player. @type {Map<any, {did: Map<string, number>, player: number}>} */
        const chats = new Map([[tavern.file, { did: new Map(), player: 0 }]]);
        const here = () => /** @type {{did: Map<string, number>, player: number}} */ (chats.get(tavern.file));
        let texts = 0;
        const expected = () => tavern.chat.reduce((sum, { mes }) => sum + (here().did.get(mes) ?? 0), here().player);
        const add = async (/** @type {any} */ anchor) => {
            const by = 1 + Math.floor(random() * 9);
            vt.chat.increment('gold', by, anchor);
            other.chat.increment('gold', by, anchor);
            if (random() < 0.5) await Promise.all([vt.chat.saved, other.chat.saved]);
            return by;
        };
        const note = (/** @type {any} */ message, /** @type {number} */ by) => here().did.set(message.mes, (here().did.get(message.mes) ?? 0) + by);
        tavern.model = () => `Text ${++texts}.`;
        /** The change that the extension makes for the next reply. @type {number} */
        let tooled = 0;
        tavern.eventSource.on(tavern.eventTypes.MESSAGE_RECEIVED, async (/** @type {number} */ index, /** @type {string} */ type) => {
            const message = tavern.chat[index];
            if (type !== 'first_message' && message.mes) note(message, tooled + await add(undefined));
            tooled = 0;
        });
        const last = () => tavern.chat.at(-1);
        const swiped = () => last().swipes?.length > 1;
        /** @type {Record<string, () => any>} */
        const actions = {
            send: () => tavern.send(`Said ${++texts}.`),
            sendAgain: () => tavern.send(`Said ${++texts}.`),
            tool: () => tavern.sendWithTool(`Said ${++texts}.`, async () => { tooled += await add(undefined); }),
            stream: () => tavern.stream([`Text ${++texts} `, 'in pieces.']),
            swipe: () => (last().is_user ? undefined : tavern.swipe()),
            streamedSwipe: () => (last().is_user ? undefined : tavern.stream([`Text ${++texts} `, 'in pieces.'], { swipe: true })),
            many: () => {
                tavern.model = () => { tavern.model = () => `Text ${++texts}.`; return [`Text ${++texts}.`, `Text ${++texts}.`]; };
                return tavern.send(`Said ${++texts}.`);
            },
            back: () => (swiped() ? tavern.swipeTo(Math.floor(random() * last().swipes.length)) : undefined),
            backAgain: () => (swiped() ? tavern.swipeTo(Math.floor(random() * last().swipes.length)) : undefined),
            elsewhere: () => {
                const index = tavern.chat.findIndex(({ swipes }) => swipes?.length > 1);
                return index >= 0 ? tavern.swipeTo(Math.floor(random() * tavern.chat[index].swipes.length), index) : undefined;
            },
            deleteSwipe: () => (swiped() ? tavern.deleteSwipe(Math.floor(random() * last().swipes.length)) : undefined),
            inVain: () => (last().swipes ? tavern.swipeInVain() : undefined),
            regenerate: () => (tavern.chat.length > 1 && !last().is_user ? tavern.regenerate() : undefined),
            delete: () => (tavern.chat.length > 3 ? tavern.deleteLast(1 + Math.floor(random() * 3)) : undefined),
            deleteOne: () => (tavern.chat.length > 3 ? tavern.deleteMessage(1 + Math.floor(random() * (tavern.chat.length - 2))) : undefined),
            edit: () => {
                const index = Math.floor(random() * tavern.chat.length);
                const before = tavern.chat[index].mes;
                const after = `Edited ${++texts}.`;
                here().did.set(after, here().did.get(before) ?? 0);
                return tavern.edit(index, after);
            },
            player: async () => {
                const by = Math.floor(random() * 5);
                await Promise.all([vt, other].map(({ chat }) => chat.increment('gold', by, { actor: 'user' })));
                here().player += by;
            },
            late: async () => {
                const index = Math.floor(random() * tavern.chat.length);
                // All messages of tools have the same text.
                if (!tavern.chat[index].is_system) note(tavern.chat[index], await add({ anchor: index }));
            },
            reload: () => tavern.reload(),
            branch: async () => {
                if (chats.size > 6) return;
                const { did, player } = here();
                await tavern.branch(tavern.chat.length - 1);
                chats.set(tavern.file, { did: new Map(did), player });
            },
            another: () => tavern.open(pick([...chats.keys()])),
            rename: async () => {
                const [before, known] = [tavern.file, here()];
                const after = `Renamed ${++texts}`;
                chats.set(after, known);
                await tavern.rename(after);
                chats.delete(before);
            },
        };
        const names = Object.keys(actions);
        const done = [];
        for (let step = 0; step < STEPS; step++) {
            const name = pick(names);
            done.push(name);
            await actions[name]();
            await Promise.all([vt, other].map(({ chat }) => chat.reconcile()));
            for (const { chat } of [vt, other]) {
                await chat.saved;
                assert.equal(chat.state.gold ?? 0, expected(), `step ${step}: ${done.slice(-6).join(', ')}`);
            }
            // The server has the same value.
            if (step % 10 === 0) {
                const data = await server.ask(vt.extensionId, `/chats/${vt.chat.id}/data`);
                assert.equal(data.gold ?? 0, expected(), `step ${step}: ${done.slice(-6).join(', ')}`);
            }
        }
    });
}

/** A seeded generator of random numbers. @param {number} seed */
function numbers(seed) {
    let state = seed;
    return () => {
        state = (state + 0x6d2b79f5) | 0;
        let value = Math.imul(state ^ (state >>> 15), 1 | state);
        value = (value + Math.imul(value ^ (value >>> 7), 61 | value)) ^ value;
        return ((value ^ (value >>> 14)) >>> 0) / 4294967296;
    };
}
