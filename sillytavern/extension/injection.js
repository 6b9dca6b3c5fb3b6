/**
 * Tells the model the values that the player has chosen, at a chosen depth of the prompt.
 *
 * What SillyTavern is given is a macro, not the text: it is read when the prompt is built, so it is
 * never old, and what a value says is never read as a macro itself.
 */

import { isTold, onSettings, settings } from './settings.js';
import { asText } from './typed.js';

const NAME = 'valuetracker';
const MACRO = 'vtTold';
/** SillyTavern's number for "in the chat, at a depth". */
const IN_CHAT = 1;

/** @param {import('./tracker.js').Tracker} tracker */
export function startInjection(tracker) {
    const { macros } = SillyTavern.getContext();
    macros?.register(MACRO, {
        category: 'variable',
        description: 'The values that Value Tracker tells the model.',
        handler: () => told(tracker),
    });
    const refresh = () => {
        const { setExtensionPrompt, powerUserSettings } = SillyTavern.getContext();
        const { depth, role } = settings();
        const text = told(tracker);
        // Without the newer macros there is only the text; its braces are kept from being one.
        const lazy = macros && powerUserSettings.experimental_macro_engine;
        const given = text && (lazy ? `{{${MACRO}}}` : text.replaceAll('{{', '{ {'));
        setExtensionPrompt(NAME, given, IN_CHAT, depth, false, role);
    };
    for (const name of ['chat', 'change']) tracker.on(name, refresh);
    onSettings(refresh);
}

/**
 * @param {import('./tracker.js').Tracker} tracker
 * @returns {string} nothing, if there is nothing to tell
 */
export function told(tracker) {
    const lines = tracker.bearers.flatMap(({ id, data }) => Object.keys(data)
        .map((key) => ({ reference: tracker.reference(id, key), value: data[key] }))
        .filter(({ reference }) => isTold(reference))
        .map(({ reference, value }) => `${reference}: ${asText(value)}`));
    return lines.length ? `[Current values]\n${lines.join('\n')}` : '';
}
