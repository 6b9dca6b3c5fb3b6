/**
 * A function that the model may call to set values. The change belongs to the reply that the model
 * is writing: swiping the reply away undoes it.
 *
 * SillyTavern adds a message for each call and lets the model reply after that message. The message
 * is removed here, and calls.js keeps the call with the reply. In a swipe SillyTavern would let
 * another message follow: the swipe is generated again instead, with the calls in its prompt.
 */

import { make } from '../dom.js';
import { isInPrompt, settings } from '../settings.js';
import { say } from '../strings.js';
import { fitting, listed, shortText, typeOf } from '../values/fitting.js';
import { ABSENT, isKey, lookUp } from '../values/paths.js';
import { asText } from '../values/typed.js';
import { Calls, TOOL, named } from './calls.js';

/** Generations that are not replies. */
const ASIDE = new Set(['quiet', 'impersonate', 'continue']);
/** The texts of a message that has no text yet. */
const EMPTY = new Set(['', '...']);

/** @typedef {{told: string, later?: string, done?: import('./calls.js').Done}} Answer */

/** @param {import('../values/tracker.js').Tracker} tracker */
export function startTool(tracker) {
    const { eventSource, eventTypes } = SillyTavern.getContext();
    const calls = new Calls(tracker);
    let type = '';
    let depth = 0;
    register(tracker, calls);

    eventSource.on(eventTypes.GENERATION_STARTED, (/** @type {string} */ started, /** @type {any} */ _, /** @type {boolean} */ dryRun) => {
        // After a call SillyTavern starts another generation for the same reply.
        if (dryRun || ASIDE.has(started) || calls.any) return;
        type = started;
        depth = 0;
    });
    eventSource.on(eventTypes.TOOL_CALLS_RENDERED, () => {
        removeCalls(calls);
        // Before SillyTavern saves the chat.
        calls.keep();
    });
    eventSource.on(eventTypes.MESSAGE_RECEIVED, () => calls.keep());
    eventSource.on(eventTypes.GENERATION_ENDED, () => {
        const away = tracker.chat?.away ?? true;
        const lost = calls.end().flatMap(({ done }) => (done ? [named(done)] : []));
        // The client takes the changes of a reply back that did not arrive, once the server knows it.
        if (lost.length && !away) toastr.warning(say('takenBack', { changes: lost.join(', ') }), say('settingsTitle'), { timeOut: 10_000, escapeHtml: true });
    });
    eventSource.on(eventTypes.CHAT_CHANGED, () => calls.clear());
    // manifest.json names this function: SillyTavern calls it before it sends a prompt.
    Object.assign(globalThis, {
        valuetrackerPrompt: async (/** @type {any[]} */ chat, /** @type {number} */ _, /** @type {(now: boolean) => void} */ abort, /** @type {string} */ of) => {
            if (type === 'swipe' && of === 'normal' && calls.any) {
                abort(true);
                depth += 1;
                await finishSwipe(depth);
                return;
            }
            calls.addTo(chat, of === 'continue');
        },
    });
}

/**
 * Generate a swipe again that has called and has no text yet. A text beside the calls is the whole reply.
 *
 * @param {number} depth how often: SillyTavern has a limit for calls that follow each other
 */
async function finishSwipe(depth) {
    const { chat, generate } = SillyTavern.getContext();
    const message = chat.at(-1);
    if (!EMPTY.has(message.mes?.trim())) return;
    // As at the start of a swipe: SillyTavern adds the text as a new one. If it fails, SillyTavern swipes back.
    message.swipes.length = message.swipe_id;
    message.swipe_info.length = message.swipe_id;
    // SillyTavern hides a message that only calls.
    document.querySelector(`#chat .mes[mesid="${chat.length - 1}"]`)?.classList.remove('displayNone');
    try {
        await generate('swipe', { depth });
    } catch (error) {
        console.warn('[ValueTracker] The reply failed after its calls.', error);
    }
}

/**
 * Remove the calls of this function from SillyTavern's message about calls, and the message with the last of them.
 *
 * @param {Calls} calls
 */
function removeCalls(calls) {
    const { chat, updateMessageBlock } = SillyTavern.getContext();
    const message = chat.at(-1);
    if (!message?.extra?.tool_invocations?.some((/** @type {any} */ { name }) => name === TOOL)) return;
    if (calls.takeFrom(message)) {
        chat.length -= 1;
        // Not `deleteLastMessage`: nothing of the story is deleted.
        document.querySelector(`#chat .mes[mesid="${chat.length}"]`)?.remove();
        return;
    }
    // SillyTavern shows the text as HTML: a list of the calls, as JSON.
    const others = message.extra.tool_invocations;
    message.mes = make('details', {},
        make('summary', {}, `Tool calls: ${others.map((/** @type {any} */ one) => one.displayName || one.name).join(', ')}`),
        make('pre', {}, make('code', { class: 'language-json' }, JSON.stringify(others, null, 2)))).outerHTML;
    updateMessageBlock(chat.length - 1, message);
}

/**
 * @param {import('../values/tracker.js').Tracker} tracker
 * @param {Calls} calls
 */
function register(tracker, calls) {
    SillyTavern.getContext().registerFunctionTool({
        name: TOOL,
        displayName: 'Value Tracker',
        description: 'Keeps a value of the story, such as hit points, money, mood or what somebody wears, so that it is '
            + 'remembered. Call it whenever such a value changes. Use "value" to set it, or "by" to add to a number.',
        parameters: {
            $schema: 'http://json-schema.org/draft-04/schema#',
            type: 'object',
            properties: {
                key: {
                    type: 'string',
                    // Read by SillyTavern for each prompt.
                    get description() {
                        return describe(tracker);
                    },
                },
                value: {
                    type: ['string', 'number', 'boolean', 'array', 'object', 'null'], items: {},
                    description: 'The new value. A value keeps its type; null removes it.',
                },
                by: { type: 'number', description: 'How much to add to the number, instead of "value".' },
                character: { type: 'string', description: 'Whose value it is; leave it out for a value of the story itself.' },
            },
            required: ['key'],
        },
        shouldRegister: () => settings().tool && tracker.chat !== null,
        // No notice: the message shows what was called.
        formatMessage: () => '',
        action: async (/** @type {any} */ given) => {
            if (!tracker.chat) return 'Nothing was set: no chat is open.';
            const anchor = tracker.chat.anchor();
            const answer = await act(tracker, given ?? {}, anchor);
            calls.add(anchor, { given: given ?? {}, ...answer });
            return answer.told;
        },
    });
}

/**
 * Name the values that are there, with their types. Values that the player has chosen not to tell are only named.
 *
 * @param {import('../values/tracker.js').Tracker} tracker
 */
function describe(tracker) {
    const known = tracker.owners.flatMap(({ id, names, data }) => Object.keys(data).map((key) => ({
        name: id === null ? key : `${key} of ${names[0]}`,
        value: data[key],
        told: settings().inject !== 'chosen' || isInPrompt(tracker.reference(id, key)),
    })));
    return `The name of the value, for example "hp".${known.length ? ` There are: ${listed(known)}.` : ''}`;
}

/**
 * @param {import('../values/tracker.js').Tracker} tracker
 * @param {{key?: unknown, value?: any, by?: unknown, character?: unknown}} given
 * @param {any} anchor
 * @returns {Promise<Answer>} the answer for the model
 */
async function act(tracker, { key, value, by, character }, anchor) {
    const refused = (/** @type {string} */ why) => ({ told: `Nothing was set: ${why}` });
    const name = typeof key === 'string' ? key.trim() : '';
    if (!name) return refused('"key" is missing.');
    if (!isKey(name)) return refused('"key" is too long, or not on one line.');
    // Many models fill in every field: ignore an empty one beside the other.
    const adds = !isEmpty(by) && isEmpty(value);
    if (value === undefined && !adds) return refused('"value" or "by" is missing.');
    if (adds && !Number.isFinite(Number(by))) return refused('"by" is not a number.');
    try {
        const row = typeof character === 'string' && character.trim()
            ? await tracker.instanceOf(character.trim()) : null;
        const path = row ? `${row.id}.${name}` : name;
        const about = { whose: row ? tracker.holderName(row.id) : '', key: name };
        const found = lookUp(tracker.owners, path);
        const before = found === ABSENT ? undefined : found;
        const type = typeOf(before);
        const isNow = `${name} is ${shortText(before ?? null)} and has the type ${type}`;
        if (adds) {
            if (type !== 'number' && type !== 'nothing') return refused(`${isNow}, so nothing can be added to it. Only the player can change the type.`);
            const sum = await tracker.increment(path, Number(by), { anchor });
            // The sum is another one when an earlier message is swiped or deleted.
            return { told: `${name} is now ${sum}.`, later: `${Number(by)} was added to ${name}.`, done: { ...about, op: 'add', text: String(Number(by)) } };
        }
        if (value === '' && type === 'number') return refused(`"value" is empty, and ${name} is a number.`);
        const fits = fitting(before, value);
        if (!fits) return refused(`${isNow}. Send a value of this type; only the player can change the type.`);
        const kept = fits.value;
        await tracker.set(path, kept === null ? undefined : kept, { anchor });
        if (kept === null) return { told: `${name} is removed.`, done: { ...about, op: 'remove' } };
        return { told: `${name} is now ${asText(kept)}.`, done: { ...about, op: 'set', text: asText(kept) } };
    } catch (error) {
        return refused(/** @type {Error} */ (error).message);
    }
}

/** @param {any} given */
function isEmpty(given) {
    return given === undefined || given === null || given === '';
}
