/**
 * Collects the changes of the last step of the story: a swipe, a deletion, a reply, a round of a group.
 *
 * A step starts with SillyTavern's event; the first value of each key since then is kept. So a swipe
 * that undoes 50 → 45 and then sets 47 is shown as 45 → 47. A reply that replaces another is shown as
 * what it did itself: undoing the other one is not part of it. A player's edits belong to no step.
 */

import { exactText } from '../client/valuetracker.js';

/** @typedef {'swipe'|'delete'|'reply'|'round'|'regenerate'|'restore'} Step */
/** @typedef {{instanceId: string|null, key: string, before: any, after: any}} Difference */
/** Generations that are not replies. */
const ASIDE = new Set(['quiet', 'impersonate', 'continue']);

export class LastStep {
    /** @type {Step|null} */
    step = null;
    /** The first and last value of each key; undefined: missing. @type {Map<string, Difference>} */
    #changes = new Map();
    #generating = false;
    /** True while the members of a group reply in turn: their replies are one step. */
    #round = false;
    /** The swipe that SillyTavern shows after the deletion of another. @type {{messageId: number, newSwipeId: number}|null} */
    #instead = null;

    /**
     * Create this before the connection, so that its listeners are called first.
     *
     * @param {import('./tracker.js').Tracker} tracker
     */
    constructor(tracker) {
        this.tracker = tracker;
        const { eventSource, eventTypes } = SillyTavern.getContext();
        eventSource.on(eventTypes.MESSAGE_SWIPED, (/** @type {number} */ index) => {
            const instead = this.#instead;
            this.#instead = null;
            // After a deletion SillyTavern swipes to another swipe: that is part of the same step.
            const left = instead?.messageId === Number(index) && SillyTavern.getContext().chat[index]?.swipe_id === instead.newSwipeId;
            if (!left) this.#begin('swipe');
        });
        eventSource.on(eventTypes.MESSAGE_SWIPE_DELETED, (/** @type {any} */ deleted) => {
            this.#begin('delete');
            this.#instead = deleted;
        });
        eventSource.on(eventTypes.MESSAGE_DELETED, () => {
            // Regenerating deletes the old reply: that is not a step of its own.
            if (!this.#generating) this.#begin('delete');
        });
        eventSource.on(eventTypes.GENERATION_STARTED, (/** @type {string} */ type, /** @type {any} */ _, /** @type {boolean} */ dryRun) => {
            if (dryRun || ASIDE.has(type)) return;
            // After a function call SillyTavern starts another generation for the same reply.
            if (!this.#generating && !this.#round && type !== 'swipe') this.#begin(type === 'regenerate' ? 'regenerate' : 'reply');
            this.#generating = true;
        });
        for (const name of [eventTypes.GENERATION_ENDED, eventTypes.GENERATION_STOPPED]) {
            eventSource.on(name, () => { this.#generating = false; });
        }
        eventSource.on(eventTypes.GROUP_WRAPPER_STARTED, (/** @type {{type: string}} */ { type }) => {
            this.#round = true;
            if (type !== 'swipe' && !ASIDE.has(type)) this.#begin('round');
        });
        eventSource.on(eventTypes.GROUP_WRAPPER_FINISHED, () => { this.#round = false; });
        tracker.on('change', ({ source, changes }) => {
            // A restore is reported twice, by its answer and by the feed; the second one has no changes.
            if (source === 'restore' && changes.length) this.#begin('restore');
            const byReply = source === 'local' && (this.#generating || tracker.anchoring > 0);
            if (source === 'story' || source === 'restore' || byReply) this.#note(changes, byReply);
            else if (source === 'remote') this.#revert(changes);
        });
        tracker.on('chat', () => {
            this.step = null;
            this.#changes.clear();
        });
    }

    /** @param {Step} step */
    #begin(step) {
        this.step = step;
        this.#changes.clear();
        this.tracker.emit('step');
    }

    /**
     * @param {Array<{instanceId: string|null, key: string, before?: any, after?: any, space?: string}>} changes
     * @param {boolean} [written] true for changes made by the reply, false for those of reconciling
     */
    #note(changes, written = false) {
        for (const { instanceId, key, before, after, space } of changes) {
            if (space) continue;
            const id = JSON.stringify([instanceId, key]);
            const known = this.#changes.get(id);
            if (!known && !written && this.step === 'regenerate') continue;
            this.#changes.set(id, { instanceId, key, before: known ? known.before : before, after });
        }
    }

    /**
     * Drop changes that the server refused: their values are back at the old ones.
     *
     * @param {Array<{instanceId: string|null, key: string, after?: any}>} changes
     */
    #revert(changes) {
        for (const { instanceId, key, after } of changes) {
            const id = JSON.stringify([instanceId, key]);
            const known = this.#changes.get(id);
            if (known && exactText(known.before) === exactText(after)) this.#changes.delete(id);
        }
    }

    /**
     * After a load no step is known: show the changes of the visible last reply.
     *
     * @param {any[]} items the history of the chat, newest first
     */
    recall(items) {
        const { chat } = this.tracker;
        const last = SillyTavern.getContext().chat.length - 1;
        if (this.step || !chat || last < 0) return;
        let anchor;
        try {
            anchor = chat.anchor(last);
        } catch {
            return;
        }
        const done = items.filter((item) => item.live && !item.superseded && item.op !== 'reconcile'
            && item.anchor?.messageId === anchor.messageId && String(item.anchor.swipe) === anchor.swipe);
        if (!done.length) return;
        this.#begin('reply');
        this.#note(done.reverse());
    }

    /**
     * Return the values that the step changed.
     *
     * @returns {Difference[]}
     */
    get differences() {
        return [...this.#changes.values()].filter(({ before, after }) => exactText(before) !== exactText(after));
    }
}
