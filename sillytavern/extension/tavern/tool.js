/**
 * A function that the model may call to set values. The change belongs to the reply that the model
 * is writing: swiping the reply away undoes it.
 *
 * SillyTavern adds a message for each call and lets the model reply after that message. In a swipe
 * this does not work: the swipe would stay empty and another message would follow. So in a swipe the
 * call is a quiet one, which adds no message, and a reply that is then still empty is continued.
 */

import { settings } from '../settings.js';
import { say } from '../strings.js';
import { ABSENT, isKey, lookUp } from '../values/paths.js';
import { asText, kindOf, read } from '../values/typed.js';

export const TOOL = 'SetValue';

/** Generations that are not replies. */
const ASIDE = new Set(['quiet', 'impersonate', 'continue']);
/** The texts of a message that has no text yet. */
const EMPTY = new Set(['', '...']);

/** @param {import('../values/tracker.js').Tracker} tracker */
export function startTool(tracker) {
    const { eventSource, eventTypes } = SillyTavern.getContext();
    let type = '';
    let called = false;
    let running = false;
    let finishing = false;
    const offer = (/** @type {boolean} */ quiet) => register(tracker, quiet, () => { called = true; });
    offer(false);

    eventSource.on(eventTypes.GENERATION_STARTED, (/** @type {string} */ started, /** @type {any} */ _, /** @type {boolean} */ dryRun) => {
        if (dryRun || ASIDE.has(started)) return;
        if ((started === 'swipe') !== (type === 'swipe')) offer(started === 'swipe');
        type = started;
        running = true;
        called = false;
    });
    eventSource.on(eventTypes.GENERATION_ENDED, () => {
        if (type === 'swipe' && called) {
            finishing = true;
            // After SillyTavern has finished the generation.
            setTimeout(() => finishSwipe().catch((error) => console.warn('[ValueTracker]', error)).finally(() => { finishing = false; }), 0);
        }
        running = false;
        called = false;
    });
    eventSource.on(eventTypes.GENERATION_STOPPED, () => { running = false; });
    // Regenerating deletes the reply; delete the message about its calls too, which SillyTavern leaves.
    eventSource.on(eventTypes.MESSAGE_DELETED, async () => {
        const { chat, deleteLastMessage } = SillyTavern.getContext();
        if (running && type === 'regenerate' && isCall(chat.at(-1))) await deleteLastMessage();
    });
    // A group deletes the replies before it begins, and leaves the message about their calls.
    eventSource.on(eventTypes.GROUP_WRAPPER_STARTED, async (/** @type {{type: string}} */ { type: round }) => {
        const { chat, deleteLastMessage } = SillyTavern.getContext();
        if (round !== 'swipe' && !ASIDE.has(round) && isCall(chat.at(-1))) await deleteLastMessage();
    });
    // manifest.json names this function: calls of another swipe are not part of this swipe's prompt.
    Object.assign(globalThis, {
        valuetrackerPrompt: (/** @type {any[]} */ chat, /** @type {number} */ _, /** @type {unknown} */ __, /** @type {string} */ of) => {
            // When a swipe is continued, it is itself the last message.
            const last = of === 'continue' && finishing ? chat.length - 2 : of === 'swipe' ? chat.length - 1 : -1;
            for (let index = last; index >= 0 && isCall(chat[index]); index--) chat.splice(index, 1);
        },
    });
}

/**
 * Return true if a message is SillyTavern's message about calls of this function alone.
 *
 * @param {any} message
 */
function isCall(message) {
    const calls = message?.extra?.tool_invocations;
    return Array.isArray(calls) && calls.length > 0 && calls.every(({ name }) => name === TOOL);
}

/** Finish a swipe with a quiet call: SillyTavern stops there, hides an empty message, and does not save. */
async function finishSwipe() {
    const { chat, generate, saveChat, swipe } = SillyTavern.getContext();
    document.querySelector(`#chat .mes[mesid="${chat.length - 1}"]`)?.classList.remove('displayNone');
    if (EMPTY.has(chat.at(-1)?.mes?.trim())) await generate('continue');
    else await saveChat();
    swipe?.refresh?.();
}

/**
 * @param {import('../values/tracker.js').Tracker} tracker
 * @param {boolean} quiet
 * @param {() => void} onCall
 */
function register(tracker, quiet, onCall) {
    const { registerFunctionTool, unregisterFunctionTool } = SillyTavern.getContext();
    unregisterFunctionTool(TOOL);
    registerFunctionTool({
        name: TOOL,
        stealth: quiet,
        displayName: 'Value Tracker',
        description: 'Keeps a value of the story, such as hit points, money, mood or what somebody wears, so that it is '
            + 'remembered. Call it whenever such a value changes. Use "value" to set it, or "by" to add to a number.'
            + (quiet ? ' Write your reply in the same turn.' : ''),
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
        // SillyTavern shows this as HTML, so it contains nothing from the model.
        formatMessage: () => say('toolCalled'),
        action: (/** @type {any} */ given) => {
            onCall();
            return act(tracker, given ?? {});
        },
    });
}

/**
 * @param {import('../values/tracker.js').Tracker} tracker
 * @param {{key?: unknown, value?: any, by?: unknown, character?: unknown}} given
 * @returns {Promise<string>} the answer for the model
 */
async function act(tracker, { key, value, by, character }) {
    const name = typeof key === 'string' ? key.trim() : '';
    if (!name) return 'Nothing was set: "key" is missing.';
    if (!isKey(name)) return 'Nothing was set: "key" is too long, or not on one line.';
    if (!tracker.chat) return 'Nothing was set: no chat is open.';
    // Many models fill in every field: ignore an empty one beside the other.
    const adds = !isEmpty(by) && isEmpty(value);
    if (value === undefined && !adds) return 'Nothing was set: "value" or "by" is missing.';
    if (adds && !Number.isFinite(Number(by))) return 'Nothing was set: "by" is not a number.';
    try {
        const row = typeof character === 'string' && character.trim()
            ? await tracker.instanceOf(character.trim()) : null;
        const path = row ? `${row.id}.${name}` : name;
        if (adds) return `${name} is now ${await tracker.increment(path, Number(by))}.`;
        const before = lookUp(tracker.owners, path);
        if (value === '' && before !== ABSENT && kindOf(before) === 'number') return `Nothing was set: "value" is empty, and ${name} is a number.`;
        const kept = alike(before, value);
        await tracker.set(path, kept === null ? undefined : kept);
        return kept === null ? `${name} is removed.` : `${name} is now ${asText(kept)}.`;
    } catch (error) {
        return `Nothing was set: ${/** @type {Error} */ (error).message}`;
    }
}

/** @param {any} given */
function isEmpty(given) {
    return given === undefined || given === null || given === '';
}

/**
 * Keep a number a number: models sometimes write it as text.
 *
 * @param {any} before
 * @param {any} value
 */
function alike(before, value) {
    if (before === ABSENT || kindOf(before) !== 'number' || typeof value !== 'string') return value;
    const found = read('number', value);
    if ('value' in found) return found.value;
    const loosely = value.trim() !== '' && found.problem === 'notANumber' ? Number(value) : NaN;
    return Number.isFinite(loosely) ? loosely : value;
}
