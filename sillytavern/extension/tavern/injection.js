/**
 * Tells the model the values that the player has chosen, at a chosen depth of the prompt.
 *
 * The text is set anew with every change. The client has the values right before a prompt is built,
 * so it is never old.
 */

import { isTold, onSettings, settings } from '../settings.js';
import { asText, harmless } from '../values/typed.js';

const NAME = 'valuetracker';
/** SillyTavern's number for "in the chat, at a depth". */
const IN_CHAT = 1;

/** @param {import('../values/tracker.js').Tracker} tracker */
export function startInjection(tracker) {
    const refresh = () => {
        const { depth, role } = settings();
        SillyTavern.getContext().setExtensionPrompt(NAME, told(tracker), IN_CHAT, depth, false, role);
    };
    for (const name of ['chat', 'change']) tracker.on(name, refresh);
    // No chat is loaded between two.
    SillyTavern.getContext().eventSource.on(SillyTavern.getContext().eventTypes.CHAT_CHANGED, refresh);
    onSettings(refresh);
}

/**
 * @param {import('../values/tracker.js').Tracker} tracker
 * @returns {string} nothing, if there is nothing to tell
 */
export function told(tracker) {
    const lines = tracker.bearers.flatMap(({ id, data }) => Object.keys(data)
        .map((key) => ({ reference: tracker.reference(id, key), value: data[key] }))
        .filter(({ reference }) => isTold(reference))
        .map(({ reference, value }) => `${reference}: ${asText(value)}`));
    return lines.length ? harmless(`[Current values]\n${lines.join('\n')}`) : '';
}
