/**
 * What the last step of the story changed: a swipe, a deletion, a reply.
 *
 * A step begins with SillyTavern's event; from then on each value remembers what it was before. So
 * a swipe that takes 45 back to 50 and then sets 47 is shown as 45 → 47. What a person edits
 * belongs to no step.
 */

import { exactText } from '../client/valuetracker.js';

/** @typedef {'swipe'|'delete'|'reply'|'regenerate'|'restore'} Step */
/** @typedef {{instanceId: string|null, key: string, before: any, after: any, written: boolean}} Difference */

export class LastStep {
    /** @type {Step|null} */
    step = null;
    /** What each value was and became; undefined is not there. @type {Map<string, Difference>} */
    #changes = new Map();
    #generating = false;
    /** The swipe that is shown instead of one that is deleted. @type {{messageId: number, newSwipeId: number}|null} */
    #instead = null;

    /**
     * Made before the connection: its listeners are called first then.
     *
     * @param {import('./tracker.js').Tracker} tracker
     */
    constructor(tracker) {
        this.tracker = tracker;
        const { eventSource, eventTypes } = SillyTavern.getContext();
        eventSource.on(eventTypes.MESSAGE_SWIPED, (/** @type {number} */ index) => {
            const instead = this.#instead;
            this.#instead = null;
            // SillyTavern swipes to what is left; the deletion has begun this step.
            const left = instead?.messageId === Number(index) && SillyTavern.getContext().chat[index]?.swipe_id === instead.newSwipeId;
            if (!left) this.#begin('swipe');
        });
        eventSource.on(eventTypes.MESSAGE_SWIPE_DELETED, (/** @type {any} */ deleted) => {
            this.#begin('delete');
            this.#instead = deleted;
        });
        eventSource.on(eventTypes.MESSAGE_DELETED, () => {
            // Regenerating deletes the reply itself.
            if (!this.#generating) this.#begin('delete');
        });
        eventSource.on(eventTypes.GENERATION_STARTED, (/** @type {string} */ type, /** @type {any} */ _, /** @type {boolean} */ dryRun) => {
            if (dryRun || ['quiet', 'impersonate', 'continue'].includes(type)) return;
            // A function's call is followed by a generation of its own.
            if (!this.#generating && type !== 'swipe') this.#begin(type === 'regenerate' ? 'regenerate' : 'reply');
            this.#generating = true;
        });
        for (const name of [eventTypes.GENERATION_ENDED, eventTypes.GENERATION_STOPPED]) {
            eventSource.on(name, () => { this.#generating = false; });
        }
        tracker.on('change', ({ source, changes }) => {
            // It is told twice: by the answer, and by the feed.
            if (source === 'restore' && changes.length) this.#begin('restore');
            const told = source === 'local' && (this.#generating || tracker.anchoring > 0);
            if (source === 'story' || source === 'restore' || told) this.#note(changes, told);
            else if (source === 'remote') this.#takeBack(changes);
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
    }

    /**
     * @param {Array<{instanceId: string|null, key: string, before?: any, after?: any, space?: string}>} changes
     * @param {boolean} [written] by the reply itself, not by what followed the story
     */
    #note(changes, written = false) {
        for (const { instanceId, key, before, after, space } of changes) {
            if (space) continue;
            const place = JSON.stringify([instanceId, key]);
            const known = this.#changes.get(place);
            // What a new reply does begins when the one before it is gone.
            const anew = !known || (this.step === 'regenerate' && written && !known.written);
            this.#changes.set(place, { instanceId, key, before: anew ? before : known.before, after, written: written || Boolean(known?.written) });
        }
    }

    /**
     * What the server has refused is as it was before.
     *
     * @param {Array<{instanceId: string|null, key: string, after?: any}>} changes
     */
    #takeBack(changes) {
        for (const { instanceId, key, after } of changes) {
            const place = JSON.stringify([instanceId, key]);
            const known = this.#changes.get(place);
            if (known && exactText(known.before) === exactText(after)) this.#changes.delete(place);
        }
    }

    /**
     * After a load there was no step to see: what is known is what the visible reply did.
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
        const done = items.filter((item) => item.live && item.op !== 'reconcile'
            && item.anchor?.messageId === anchor.messageId && String(item.anchor.swipe) === anchor.swipe);
        if (!done.length) return;
        this.#begin('reply');
        this.#note(done.reverse());
    }

    /**
     * What differs after the step from what was before it.
     *
     * @returns {Difference[]}
     */
    get differences() {
        return [...this.#changes.values()].filter(({ before, after }) => exactText(before) !== exactText(after));
    }
}
