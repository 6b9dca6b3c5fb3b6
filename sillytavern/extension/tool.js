/**
 * A function that the model may call to set values. What it sets goes with the reply it is
 * writing: swiping the reply away takes it back.
 */

import { ABSENT, lookUp } from './paths.js';
import { settings } from './settings.js';
import { say } from './strings.js';
import { asText } from './typed.js';

export const TOOL = 'SetValue';

/** @param {import('./tracker.js').Tracker} tracker */
export function registerTool(tracker) {
    SillyTavern.getContext().registerFunctionTool({
        name: TOOL,
        displayName: 'Value Tracker',
        description: 'Keeps a value of the story, such as hit points, money, mood or what somebody wears, so that it is '
            + 'remembered. Call it whenever such a value changes. Use "value" to set it, or "by" to add to a number.',
        parameters: {
            $schema: 'http://json-schema.org/draft-04/schema#',
            type: 'object',
            properties: {
                key: { type: 'string', description: 'The name of the value, for example "hp".' },
                value: {
                    type: ['string', 'number', 'boolean', 'array', 'object', 'null'], items: {},
                    description: 'The new value, of the type it should have; null removes it.',
                },
                by: { type: 'number', description: 'How much to add to the number, instead of "value".' },
                character: { type: 'string', description: 'Whose value it is; leave it out for a value of the story itself.' },
            },
            required: ['key'],
        },
        shouldRegister: () => settings().tool && tracker.chat !== null,
        // SillyTavern shows this as HTML: nothing of what the model says is in it.
        formatMessage: () => say('toolCalled'),
        action: (/** @type {any} */ given) => act(tracker, given ?? {}),
    });
}

/**
 * @param {import('./tracker.js').Tracker} tracker
 * @param {{key?: unknown, value?: any, by?: unknown, character?: unknown}} given
 * @returns {Promise<string>} what the model is told of it
 */
async function act(tracker, { key, value, by, character }) {
    if (typeof key !== 'string' || !key.trim()) return 'Nothing was set: "key" is missing.';
    if (!tracker.chat) return 'Nothing was set: no chat is open.';
    if (value === undefined && by === undefined) return 'Nothing was set: "value" or "by" is missing.';
    try {
        const row = typeof character === 'string' && character.trim()
            ? await tracker.instanceOf(character.trim()) : null;
        const name = key.trim();
        const path = row ? `${row.id}.${name}` : name;
        if (value === undefined) {
            const sum = await tracker.increment(path, Number(by));
            return `${name} is now ${sum}.`;
        }
        const kept = alike(lookUp(tracker.bearers, path), value);
        await tracker.set(path, kept === null ? undefined : kept);
        return kept === null ? `${name} is removed.` : `${name} is now ${asText(kept)}.`;
    } catch (error) {
        return `Nothing was set: ${/** @type {Error} */ (error).message}`;
    }
}

/**
 * Models write numbers as text now and then: what was a number stays one.
 *
 * @param {any} before
 * @param {any} value
 */
function alike(before, value) {
    const isNumber = before !== ABSENT && typeof before === 'number' && typeof value === 'string'
        && value.trim() !== '' && Number.isFinite(Number(value));
    return isNumber ? Number(value) : value;
}
