/**
 * Gives values another name or another holder, and joins two holders. Each is a player's edit.
 */

import { setInPrompt, settings } from '../settings.js';
import { BY_PLAYER } from './tracker.js';

/** @typedef {import('./tracker.js').Tracker} Tracker */
/** @typedef {{instanceId: string|null, key: string}} Place */

/**
 * Return the row of a name; the chat's own if the name is empty.
 *
 * @param {Tracker} tracker
 * @param {string} whom
 */
async function rowOf(tracker, whom) {
    return whom ? await tracker.instanceOf(whom) : tracker.chat;
}

/** @param {any} value */
function isObject(value) {
    return value !== null && typeof value === 'object' && !Array.isArray(value);
}

/**
 * Move a value. If there is another one with that name, nothing is done unless `join` is true: then
 * two objects become one, and any other value is replaced.
 *
 * @param {Tracker} tracker
 * @param {Place} from
 * @param {string} whom
 * @param {string} key
 * @param {boolean} join
 * @returns {Promise<{taken: any}|null>} the value that is there
 */
export async function moveValue(tracker, { instanceId, key: before }, whom, key, join) {
    const { chat } = tracker;
    const to = await rowOf(tracker, whom);
    const from = instanceId === null ? chat : chat.instance(instanceId);
    if (to.state === from.state && key === before) return null;
    const taken = Object.hasOwn(to.state, key) ? to.state[key] : undefined;
    if (taken !== undefined && !join) return { taken };
    const reference = tracker.reference(instanceId, before);
    await chat.batch(() => {
        const value = from.state[before];
        to.state[key] = isObject(taken) && isObject(value) ? { ...taken, ...value } : value;
        delete from.state[before];
    }, BY_PLAYER);
    keepInPrompt(reference, tracker.reference(to === chat ? null : to.id, key));
    return null;
}

/**
 * Rename a holder of values.
 *
 * @param {Tracker} tracker
 * @param {string} instanceId
 * @param {string} name
 */
export async function renameHolder(tracker, instanceId, name) {
    const { chat } = tracker;
    const row = chat.instance(instanceId);
    const keys = Object.keys(row.state);
    const before = keys.map((key) => tracker.reference(instanceId, key));
    await chat.addInstance({ id: instanceId, characterId: row.characterId, name });
    keys.forEach((key, index) => keepInPrompt(before[index], tracker.reference(instanceId, key)));
    tracker.emit('change', { source: 'remote', changes: [] });
}

/**
 * Give all values of a holder to another one, and remove the empty holder. A value that both have stays
 * as the other one has it.
 *
 * @param {Tracker} tracker
 * @param {string} instanceId
 * @param {string} whom
 */
export async function joinHolders(tracker, instanceId, whom) {
    const { chat } = tracker;
    const from = chat.instance(instanceId);
    const to = await rowOf(tracker, whom);
    if (to === from) return;
    const keys = Object.keys(from.state);
    const before = keys.map((key) => tracker.reference(instanceId, key));
    await chat.batch(() => {
        for (const key of keys) {
            if (!Object.hasOwn(to.state, key)) to.state[key] = from.state[key];
            delete from.state[key];
        }
    }, BY_PLAYER);
    keys.forEach((key, index) => keepInPrompt(before[index], tracker.reference(to === chat ? null : to.id, key)));
    await chat.removeInstance(instanceId);
}

/**
 * Return the values that two holders both have.
 *
 * @param {Tracker} tracker
 * @param {string} instanceId
 * @param {string} whom
 * @returns {string[]}
 */
export function sharedKeys(tracker, instanceId, whom) {
    const from = tracker.chat.instance(instanceId).state;
    const to = whom ? tracker.owners.find(({ id, names }) => id !== null && names[0] === whom)?.data ?? {} : tracker.chat.state;
    return Object.keys(from).filter((key) => Object.hasOwn(to, key));
}

/**
 * A value that the model was told stays one, under its new name.
 *
 * @param {string} before
 * @param {string} reference
 */
function keepInPrompt(before, reference) {
    if (before === reference || !settings().chosen.includes(before)) return;
    setInPrompt(before, false);
    setInPrompt(reference, true);
}
