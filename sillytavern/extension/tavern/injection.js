/**
 * Puts the values that the player has chosen into the prompt, at a chosen depth.
 *
 * The text is set again with every change. The client updates the values before a prompt is built, so
 * the text is never outdated.
 */

import { isInPrompt, onSettings, settings } from '../settings.js';
import { asText, withoutMacros } from '../values/typed.js';

const NAME = 'valuetracker';
/** SillyTavern's number for "in the chat, at a depth". */
const IN_CHAT = 1;

/** @param {import('../values/tracker.js').Tracker} tracker */
export function startInjection(tracker) {
    const refresh = () => {
        const { depth, role } = settings();
        SillyTavern.getContext().setExtensionPrompt(NAME, promptText(tracker), IN_CHAT, depth, false, role);
    };
    for (const name of ['chat', 'change']) tracker.on(name, refresh);
    // Between two chats no chat is loaded: clear the text.
    SillyTavern.getContext().eventSource.on(SillyTavern.getContext().eventTypes.CHAT_CHANGED, refresh);
    onSettings(refresh);
}

/**
 * @param {import('../values/tracker.js').Tracker} tracker
 * @returns {string} empty if there are no values for the prompt
 */
export function promptText(tracker) {
    const lines = tracker.owners.flatMap(({ id, data }) => Object.keys(data)
        .map((key) => ({ reference: tracker.reference(id, key), value: data[key] }))
        .filter(({ reference }) => isInPrompt(reference))
        .map(({ reference, value }) => `${reference}: ${asText(value)}`));
    return lines.length ? withoutMacros(`[Current values]\n${lines.join('\n')}`) : '';
}
