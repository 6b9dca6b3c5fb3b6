/**
 * The values that other extensions keep for this chat, to look at.
 */

import { EXTENSION_ID, charactersHere } from './tracker.js';

/**
 * The ids of other extensions; none where the list is not this person's to read.
 *
 * @param {any} vt
 * @returns {Promise<string[]>}
 */
export async function otherExtensions(vt) {
    try {
        const { body } = await vt.request('GET', '/extensions');
        return body.map((/** @type {any} */ { id }) => id).filter((/** @type {string} */ id) => id !== EXTENSION_ID).sort();
    } catch {
        return [];
    }
}

/**
 * What another extension has for the open chat; and, where it knows no chats, for who is in it.
 *
 * @param {any} vt
 * @param {string} extensionId
 * @param {string} chatId
 * @returns {Promise<{data: Record<string, any>, instances: any[]}>}
 */
export async function readOther(vt, extensionId, chatId) {
    const part = encodeURIComponent;
    const { body: state } = await vt.request('GET', `/cross-extension/chats/${part(extensionId)}/${part(chatId)}/state`);
    const found = { data: state?.data ?? {}, instances: [...(state?.instances ?? [])] };
    // A chat that it does not know is null.
    const known = new Set(found.instances.map(({ instance }) => instance.id));
    const here = new Set(charactersHere().flatMap(({ avatar, name }) => [avatar, name]));
    const { body: characters } = await vt.request('GET', `/cross-extension/characters/${part(extensionId)}`);
    for (const { id } of characters.filter((/** @type {any} */ one) => here.has(one.id))) {
        const { body } = await vt.request('GET', `/cross-extension/characters/${part(extensionId)}/${part(id)}`);
        found.instances.push(...body.instances.filter((/** @type {any} */ { instance }) => !instance.chatId && !known.has(instance.id)));
    }
    return found;
}
