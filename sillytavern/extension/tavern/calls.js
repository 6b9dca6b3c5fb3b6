/**
 * The record of the model's calls. It is kept with the swipe that made them, in
 * `extra.valuetracker.calls`, and replaces SillyTavern's messages about calls: those belong to no
 * swipe, so a later prompt would contain calls that the visible story does not.
 *
 * The calls of a running generation are kept here until their message arrives. If none arrives, the
 * client takes their changes back.
 */

import { settings } from '../settings.js';
import { say } from '../strings.js';

export const TOOL = 'SetValue';
const LONGEST = 60;

/** The change that a call made; `text` is the new value, or what was added. @typedef {{whose: string, key: string, op: 'set'|'add'|'remove', text?: string}} Done */
/**
 * A call as it is kept.
 *
 * @typedef {object} Call
 * @property {string} id
 * @property {string} parameters as JSON text
 * @property {string} result the answer for the model
 * @property {boolean} [after] true if the text of its message came before the call
 * @property {Done} [done] missing: nothing was changed
 * @property {string} [signature]
 * @property {string} [reasoning]
 */
/** A call of the running generation: `told` is its answer now. @typedef {{anchor: any, told: string, call: Call, of: {api?: string, model?: string}}} Made */

export class Calls {
    /** @type {Made[]} */
    #made = [];
    /** The number of calls whose message from SillyTavern has been read. */
    #read = 0;

    /** @param {import('../values/tracker.js').Tracker} tracker */
    constructor(tracker) {
        this.tracker = tracker;
    }

    /** True if the running generation has called. */
    get any() {
        return this.#made.length > 0;
    }

    /** Forget the calls of an earlier generation. */
    clear() {
        this.#made = [];
        this.#read = 0;
    }

    /**
     * @param {any} anchor of its changes
     * @param {{given: any, told: string, later?: string, done?: Done}} about `later`: its answer in later prompts, if another
     */
    add(anchor, { given, told, later = told, done }) {
        const last = SillyTavern.getContext().chat.at(-1);
        const after = isAt(last, anchor) && Boolean(last.mes?.trim());
        const id = `vt_${crypto.getRandomValues(new Uint32Array(2)).join('')}`;
        const call = { id, parameters: JSON.stringify(given), result: later, ...(after ? { after } : {}), ...(done ? { done } : {}) };
        this.#made.push({ anchor, told, call, of: {} });
    }

    /**
     * Take the calls out of SillyTavern's message about them.
     *
     * @param {any} message
     * @returns {boolean} true if nothing is left in it
     */
    takeFrom(message) {
        const { api, model, tool_invocations: invocations } = message.extra;
        const own = invocations.filter((/** @type {any} */ one) => one.name === TOOL);
        for (const { id, parameters, result, error, signature, reasoning } of own) {
            // SillyTavern could not read the parameters, so it did not call: no prompt may contain them.
            if (error) this.#made.splice(this.#read, 0, { anchor: this.tracker.chat?.anchor(), told: result, call: { id, parameters: '{}', result }, of: {} });
            const made = this.#made[this.#read++];
            if (!made) continue;
            Object.assign(made.call, { id, parameters: error ? '{}' : parameters }, signature && { signature }, reasoning && { reasoning });
            Object.assign(made, { told: result, of: { api, model } });
        }
        message.extra.tool_invocations = invocations.filter((/** @type {any} */ one) => one.name !== TOOL);
        return message.extra.tool_invocations.length === 0;
    }

    /** Keep the calls with their messages, as far as these have arrived. */
    keep() {
        const { chat: messages } = SillyTavern.getContext();
        if (!this.any || !messages.length) return;
        try {
            // A message that has just arrived gets its ids.
            this.tracker.chat?.anchor(messages.length - 1);
        } catch {
            // A new swipe of it is being generated.
        }
        for (const message of messages) {
            const calls = this.#made.filter(({ anchor }) => isAt(message, anchor)).map(({ call }) => call);
            if (!calls.length) continue;
            const info = message.swipe_info?.[message.swipe_id ?? 0]?.extra?.valuetracker;
            message.extra.valuetracker.calls = calls;
            if (info?.swipeId === message.extra.valuetracker.swipeId) info.calls = structuredClone(calls);
        }
    }

    /**
     * The generation has ended.
     *
     * @returns {Call[]} the calls whose message did not arrive
     */
    end() {
        this.keep();
        const { chat } = SillyTavern.getContext();
        const lost = this.#made.filter(({ anchor }) => anchor && !chat.some((/** @type {any} */ message) => isAt(message, anchor)));
        this.clear();
        return lost.map(({ call }) => call);
    }

    /**
     * Put the calls of the visible messages into a prompt, and those of the running generation at its end.
     *
     * @param {any[]} chat the messages of the prompt
     * @param {boolean} continues true if the last message is being continued
     */
    addTo(chat, continues) {
        if (!settings().tool || !SillyTavern.getContext().isToolCallingSupported()) return;
        const told = new Map(this.#made.map(({ call, told: answer }) => [call.id, answer]));
        const messages = chat.splice(0);
        messages.forEach((message, index) => {
            const calls = callsOf(message);
            const fresh = calls.map((call) => ({ ...call, result: told.get(call.id) ?? call.result }));
            for (const { id } of calls) told.delete(id);
            // Nothing may come after a text that the model continues.
            const last = continues && index === messages.length - 1;
            const before = fresh.filter(({ after }) => last || !after);
            const after = fresh.filter((call) => !before.includes(call));
            if (before.length) chat.push(messageOf(before, message.extra));
            chat.push(message);
            if (after.length) chat.push(messageOf(after, message.extra));
        });
        const waiting = this.#made.filter(({ call }) => told.has(call.id));
        if (waiting.length) chat.push(messageOf(waiting.map(({ call, told: result }) => ({ ...call, result })), waiting[0].of));
    }
}

/**
 * Return the calls of the visible swipe of a message.
 *
 * @param {any} message
 * @returns {Call[]}
 */
export function callsOf(message) {
    const calls = exists(message) ? message.extra?.valuetracker?.calls : undefined;
    return Array.isArray(calls) ? calls : [];
}

/**
 * Name a change for the player: `hp = 42`, `Ann.gold -5`.
 *
 * @param {Done} done
 */
export function named({ whose, key, op, text = '' }) {
    const name = whose ? `${whose}.${key}` : key;
    if (op === 'remove') return say('callRemoved', { key: name });
    if (op === 'add') return `${name} ${text.startsWith('-') ? '' : '+'}${text}`;
    return `${name} = ${text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text}`;
}

/**
 * Return true if the visible swipe is there: while a new one is generated, `extra` is that of the one before.
 *
 * @param {any} message
 */
function exists({ swipes, swipe_id: swipe = 0 }) {
    return !Array.isArray(swipes) || swipe < swipes.length;
}

/**
 * @param {any} message
 * @param {{messageId: string, swipe: string}|null} anchor
 */
function isAt(message, anchor) {
    const ids = message?.extra?.valuetracker;
    return Boolean(anchor && ids && ids.messageId === anchor.messageId && ids.swipeId === anchor.swipe && exists(message));
}

/**
 * Return a message about calls as SillyTavern makes it, for a prompt.
 *
 * @param {Call[]} calls
 * @param {{api?: string, model?: string}} [of] the model that called: SillyTavern sends a signature only to the same one
 */
function messageOf(calls, { api, model } = {}) {
    const invocations = calls.map(({ id, parameters, result, signature = null, reasoning = null }) => (
        { id, displayName: 'Value Tracker', name: TOOL, parameters, result, error: false, signature, reasoning }));
    return { name: '', is_user: false, is_system: true, mes: '', extra: { isSmallSys: true, tool_invocations: invocations, api, model } };
}
