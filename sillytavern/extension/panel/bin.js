/**
 * Removed values: each can be brought back, as long as the history that the panel reads has it.
 */

import { iconButton, make, moment } from '../dom.js';
import { say } from '../strings.js';
import { BY_PLAYER } from '../values/tracker.js';
import { valueShown } from './valueshown.js';

const MOST = 30;

/** @typedef {{instanceId: string|null, key: string, before: any, at: string}} Removed */

export class Bin {
    /**
     * @param {import('../values/tracker.js').Tracker} tracker
     * @param {import('./lines.js').Lines} lines
     */
    constructor(tracker, lines) {
        this.tracker = tracker;
        this.lines = lines;
        this.title = make('summary', {});
        this.list = make('ul', { class: 'vt-bin-list' });
        this.element = make('details', { class: 'vt-bin vt-section', hidden: true }, this.title, this.list);
    }

    draw() {
        const removed = this.#removed();
        this.element.hidden = removed.length === 0;
        this.title.textContent = say('bin', { count: removed.length });
        this.list.replaceChildren(...removed.map((one) => make('li', {},
            make('span', { class: 'vt-name' }, this.tracker.reference(one.instanceId, one.key)),
            make('span', { class: 'vt-faint' }, moment(one.at)),
            make('span', { class: 'vt-change' }, valueShown(one.before)),
            iconButton('fa-trash-arrow-up', say('bringBack'), () => bringBack(this.tracker, one), 'vt-bring-back'))));
    }

    /** @returns {Removed[]} newest first */
    #removed() {
        const { chat } = this.tracker;
        if (!chat) return [];
        const rows = new Map([[/** @type {string|null} */ (null), chat.state], ...chat.instances.map((/** @type {any} */ one) => [one.id, one.state])]);
        const seen = new Set();
        /** @type {Removed[]} */
        const found = [];
        for (const { instanceId, key, before, after, at, live, space, superseded } of this.lines.items) {
            if (space || !live || superseded || key === null) continue;
            const id = JSON.stringify([instanceId, key]);
            const state = rows.get(instanceId);
            // Only the last change of a value counts, and only that of a holder that is still there.
            if (seen.has(id) || !state) continue;
            seen.add(id);
            if (after === undefined && before !== undefined && !Object.hasOwn(state, key)) found.push({ instanceId, key, before, at });
        }
        return found.slice(0, MOST);
    }
}

/**
 * @param {import('../values/tracker.js').Tracker} tracker
 * @param {{instanceId: string|null, key: string, before: any}} removed
 */
export function bringBack({ chat }, { instanceId, key, before }) {
    const row = instanceId === null ? chat : chat.instance(instanceId);
    return row.set(key, before, BY_PLAYER).catch(() => {});
}
