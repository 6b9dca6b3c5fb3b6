/**
 * Reads the values of other extensions for this chat.
 */

import { people } from './people.js';
import { EXTENSION_ID } from './tracker.js';

const REFUSED = new Set([401, 403]);

/**
 * Return the ids of the other extensions; none if the user may not read the list.
 *
 * @param {any} vt
 * @returns {Promise<string[]>}
 */
export async function otherExtensions(vt) {
    try {
        const { body } = await vt.request('GET', '/extensions');
        return body.map((/** @type {any} */ { id }) => id).filter((/** @type {string} */ id) => id !== EXTENSION_ID).sort();
    } catch (error) {
        if (REFUSED.has(/** @type {any} */ (error).status)) return [];
        throw error;
    }
}

/**
 * Read another extension's values for the open chat, and those of its characters that belong to no chat.
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
    // The state is null if the other extension does not know the chat.
    const known = new Set(found.instances.map(({ instance }) => instance.id));
    const inChat = new Set(people().flatMap(({ id, name }) => [id, name]));
    const { body: characters } = await vt.request('GET', `/cross-extension/characters/${part(extensionId)}`);
    for (const { id } of characters.filter((/** @type {any} */ one) => inChat.has(one.id))) {
        const { body } = await vt.request('GET', `/cross-extension/characters/${part(extensionId)}/${part(id)}`);
        found.instances.push(...body.instances.filter((/** @type {any} */ { instance }) => !instance.chatId && !known.has(instance.id)));
    }
    return found;
}
