/**
 * A character that is renamed keeps its values, in all chats.
 *
 * SillyTavern gives it a new avatar file, by which instances know their character. What is still to
 * be done is kept with the settings: the server may be away, or the page closed.
 */

import { change, settings } from '../settings.js';

/** @typedef {{from: string, to: string, name: string}} Rename the avatars, and what the character was called */

/** @param {import('../values/tracker.js').Tracker} tracker */
export function followRenames(tracker) {
    const { eventSource, eventTypes } = SillyTavern.getContext();
    eventSource.on(eventTypes.CHARACTER_RENAMED, (/** @type {string} */ from, /** @type {string} */ to) => {
        const name = SillyTavern.getContext().characters.find((/** @type {any} */ one) => one.avatar === from)?.name ?? '';
        change({ renames: [...settings().renames, { from, to, name }] });
    });
    let working = false;
    const work = async () => {
        if (working || tracker.status !== 'online') return;
        working = true;
        try {
            for (const rename of settings().renames) await carryOut(tracker, rename);
        } catch (error) {
            // It is tried again with the next chat, or when the server is back.
            console.info('[ValueTracker] A renamed character still has its old name.', error);
        } finally {
            working = false;
        }
    };
    // SillyTavern opens the chat anew once it knows the new name.
    tracker.on('chat', work);
    tracker.on('status', work);
}

/**
 * @param {import('../values/tracker.js').Tracker} tracker
 * @param {Rename} rename
 */
async function carryOut(tracker, rename) {
    const { from, to, name: before } = rename;
    const name = SillyTavern.getContext().characters.find((/** @type {any} */ one) => one.avatar === to)?.name;
    if (!name) return;
    const { chat, vt } = tracker;
    const { body: instances } = await vt.request('GET', '/instances', { query: { characterId: from } });
    for (const instance of instances) {
        const about = { id: instance.id, characterId: to, name: instance.name === before ? name : undefined };
        // Of the open chat, so that it is read anew.
        if (chat && instance.chatId === chat.id) await chat.addInstance(about);
        else await vt.request('POST', '/instances', { body: about });
    }
    const { chosen, renames } = settings();
    change({
        renames: renames.filter((one) => one !== rename),
        // The model is told the same values as before.
        chosen: before ? chosen.map((reference) => (reference.startsWith(`${before}.`) ? name + reference.slice(before.length) : reference)) : chosen,
    });
    tracker.tell('change', { source: 'remote', changes: [] });
}
