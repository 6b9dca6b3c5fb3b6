/**
 * Moves the values of a renamed character to its new name, in all chats.
 *
 * SillyTavern gives a renamed character a new avatar file, and instances refer to that file. Renames
 * that are not on the server yet are kept in the settings: the server may be away, or the page closed.
 */

import { change, settings } from '../settings.js';

/** @typedef {{from: string, to: string, name: string}} Rename the avatar files, and the old name of the character */

/** @param {import('../values/tracker.js').Tracker} tracker */
export function followRenames(tracker) {
    const { eventSource, eventTypes } = SillyTavern.getContext();
    eventSource.on(eventTypes.CHARACTER_RENAMED, (/** @type {string} */ from, /** @type {string} */ to) => {
        const name = SillyTavern.getContext().characters.find((/** @type {any} */ one) => one.avatar === from)?.name ?? '';
        change({ renames: [...settings().renames, { from, to, name }] });
    });
    // The values of a persona belong to its avatar file, which stays: only its names in the settings change.
    eventSource.on(eventTypes.PERSONA_RENAMED, (/** @type {{oldName: string, newName: string}} */ { oldName, newName }) => {
        change({ chosen: renamed(settings().chosen, oldName, newName) });
        tracker.emit('change', { source: 'remote', changes: [] });
    });
    let working = false;
    const work = async () => {
        if (working || tracker.status !== 'online') return;
        working = true;
        try {
            for (const rename of settings().renames) await carryOut(tracker, rename);
        } catch (error) {
            // Tried again with the next chat, or when the server is back.
            console.info('[ValueTracker] A renamed character still has its old name on the server.', error);
        } finally {
            working = false;
        }
    };
    // SillyTavern opens the chat again once it knows the new name.
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
        // Through the open chat, so that the chat is read again.
        if (chat && instance.chatId === chat.id) await chat.addInstance(about);
        else await vt.request('POST', '/instances', { body: about });
    }
    const { chosen, renames } = settings();
    change({
        renames: renames.filter((one) => one !== rename),
        // The prompt keeps the same values as before.
        chosen: renamed(chosen, before, name),
    });
    tracker.emit('change', { source: 'remote', changes: [] });
}

/**
 * @param {string[]} chosen names of values
 * @param {string} before
 * @param {string} name
 */
function renamed(chosen, before, name) {
    return before ? chosen.map((reference) => (reference.startsWith(`${before}.`) ? name + reference.slice(before.length) : reference)) : chosen;
}
