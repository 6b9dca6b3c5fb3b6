/**
 * A function that the model may call to set values. What it sets goes with the reply it is
 * writing: swiping the reply away takes it back.
 *
 * SillyTavern answers a call with a message of its own, and lets the model reply after that. A
 * swipe has no room for either: it would stay empty, and a further message would follow. So in a
 * swipe the call is a quiet one, and a reply that is still empty then is continued.
 */

import { settings } from '../settings.js';
import { say } from '../strings.js';
import { ABSENT, isKey, lookUp } from '../values/paths.js';
import { asText, kindOf, read } from '../values/typed.js';

export const TOOL = 'SetValue';

/** Generations that are not replies. */
const ASIDE = new Set(['quiet', 'impersonate', 'continue']);
/** What SillyTavern writes where there is nothing yet. */
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
            // When SillyTavern is done with it.
            setTimeout(() => finishSwipe().catch((error) => console.warn('[ValueTracker]', error)).finally(() => { finishing = false; }), 0);
        }
        running = false;
        called = false;
    });
    eventSource.on(eventTypes.GENERATION_STOPPED, () => { running = false; });
    // A reply that is made anew takes its calls with it; SillyTavern only takes the text.
    eventSource.on(eventTypes.MESSAGE_DELETED, async () => {
        const { chat, deleteLastMessage } = SillyTavern.getContext();
        if (running && type === 'regenerate' && isCall(chat.at(-1))) await deleteLastMessage();
    });
    // A group deletes them before it begins, and leaves the call of a reply that is gone.
    eventSource.on(eventTypes.GROUP_WRAPPER_STARTED, async (/** @type {{type: string}} */ { type: round }) => {
        const { chat, deleteLastMessage } = SillyTavern.getContext();
        if (round !== 'swipe' && !ASIDE.has(round) && isCall(chat.at(-1))) await deleteLastMessage();
    });
    // manifest.json names it: what another swipe has called is not part of this one's prompt.
    Object.assign(globalThis, {
        valuetrackerPrompt: (/** @type {any[]} */ chat, /** @type {number} */ _, /** @type {unknown} */ __, /** @type {string} */ of) => {
            // A swipe that is continued is itself the last message.
            const last = of === 'continue' && finishing ? chat.length - 2 : of === 'swipe' ? chat.length - 1 : -1;
            for (let index = last; index >= 0 && isCall(chat[index]); index--) chat.splice(index, 1);
        },
    });
}

/**
 * Whether a message is SillyTavern's about calls of this function, and of no other.
 *
 * @param {any} message
 */
function isCall(message) {
    const calls = message?.extra?.tool_invocations;
    return Array.isArray(calls) && calls.length > 0 && calls.every(({ name }) => name === TOOL);
}

/** SillyTavern stops at a quiet call: with the message hidden if it is empty, and without saving. */
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
        // SillyTavern shows this as HTML: nothing of what the model says is in it.
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
 * @returns {Promise<string>} what the model is told of it
 */
async function act(tracker, { key, value, by, character }) {
    const name = typeof key === 'string' ? key.trim() : '';
    if (!name) return 'Nothing was set: "key" is missing.';
    if (!isKey(name)) return 'Nothing was set: "key" is too long, or not on one line.';
    if (!tracker.chat) return 'Nothing was set: no chat is open.';
    // Many models fill in every field: one that is empty beside the other was not meant.
    const adds = !isEmpty(by) && isEmpty(value);
    if (value === undefined && !adds) return 'Nothing was set: "value" or "by" is missing.';
    if (adds && !Number.isFinite(Number(by))) return 'Nothing was set: "by" is not a number.';
    try {
        const row = typeof character === 'string' && character.trim()
            ? await tracker.instanceOf(character.trim()) : null;
        const path = row ? `${row.id}.${name}` : name;
        if (adds) return `${name} is now ${await tracker.increment(path, Number(by))}.`;
        const before = lookUp(tracker.bearers, path);
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
 * Models write numbers as text now and then: what was a number stays one.
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
