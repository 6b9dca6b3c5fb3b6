/**
 * The values of a chat: its own, then those of its instances, grouped by character.
 *
 * If there are many, each group shows its first values and a button for the rest. A search shows the
 * values that match.
 */

import { iconButton, make, setChildren, textButton } from '../dom.js';
import { say } from '../strings.js';
import { namesOf, personName } from '../values/people.js';
import { asText } from '../values/typed.js';
import { HolderForm } from './moveforms.js';
import { ValueRow } from './valuerow.js';

/** With more than MANY values, all groups together show about SHOWN of them. */
const MANY = 20;
const SHOWN = 12;
/** A group shows at least this many values, and hides at least this many. */
const FEWEST = 3;

/**
 * One heading with its values.
 *
 * @typedef {object} Group
 * @property {string|null} id of the instance
 * @property {string} title
 * @property {Record<string, any>} data
 */

/** @typedef {{element: any, title: any, caret: any, name: any, list: any, more: any, folded: boolean, all: boolean}} GroupView */

export class ValuesView {
    /** @type {Map<string, ValueRow>} */
    #rows = new Map();
    /** @type {Map<string|null, GroupView>} */
    #groupViews = new Map();
    /** @type {Group[]} */
    #groups = [];
    #query = '';

    /** @param {import('./valuerow.js').Shown} shown */
    constructor(shown) {
        this.shown = shown;
        this.element = make('div', { class: 'vt-groups' });
        /** The number of values, and the number that match the search. */
        this.count = 0;
        this.found = 0;
    }

    /** Remove all rows, for another chat. */
    clear() {
        this.#rows.clear();
        this.#groupViews.clear();
        this.#groups = [];
        this.element.replaceChildren();
    }

    /** @param {string} text to find in names and values */
    search(text) {
        const query = text.trim().toLowerCase();
        if (query === this.#query) return;
        this.#query = query;
        this.update(this.#groups);
    }

    /** @param {Group[]} groups */
    update(groups) {
        this.#groups = groups;
        const listed = this.#withBusy(groups).filter(({ keys }) => keys.length);
        this.count = listed.reduce((sum, { keys }) => sum + keys.length, 0);
        this.found = 0;
        const most = this.count > MANY ? Math.max(Math.floor(SHOWN / listed.length), FEWEST) : Infinity;
        const seen = new Set();
        const focused = [...this.#rows.values()].findIndex(({ element }) => element.contains(document.activeElement));
        setChildren(this.element, listed.map((group) => {
            const { id, title, data, keys } = group;
            const view = this.#groupView(id);
            const rows = keys.map((key) => {
                const name = JSON.stringify([id, key]);
                seen.add(name);
                return this.#row(name, id, key, Object.hasOwn(data, key) ? data[key] : undefined);
            });
            view.name.textContent = title;
            setChildren(view.list, rows.map(({ element }) => element));
            this.#limit(view, group, rows, most);
            return view.element;
        }));
        for (const name of [...this.#rows.keys()]) if (!seen.has(name)) this.#rows.delete(name);
        for (const id of [...this.#groupViews.keys()]) if (!listed.some((group) => group.id === id)) this.#groupViews.delete(id);
        // If the focused row was removed, focus the next one.
        if (focused >= 0 && !this.element.contains(document.activeElement)) {
            [...this.#rows.values()].at(Math.min(focused, this.#rows.size - 1))?.name.focus();
        }
    }

    /**
     * Return the groups with the keys to show. A value that is being edited stays, even if it was removed.
     *
     * @param {Group[]} groups
     */
    #withBusy(groups) {
        const listed = groups.map((group) => ({ ...group, keys: Object.keys(group.data) }));
        for (const { isBusy, instanceId, key } of this.#rows.values()) {
            if (!isBusy) continue;
            let group = listed.find(({ id }) => id === instanceId);
            if (!group) listed.push(group = { id: instanceId, title: this.#groupView(instanceId).name.textContent, data: {}, keys: [] });
            if (!group.keys.includes(key)) group.keys.push(key);
        }
        return listed;
    }

    /**
     * Hide the rows that do not match the search, and those beyond the limit.
     *
     * @param {GroupView} view
     * @param {Group} group
     * @param {ValueRow[]} rows
     * @param {number} most
     */
    #limit(view, { title, data }, rows, most) {
        const query = this.#query;
        const titled = title.toLowerCase().includes(query);
        const found = rows.filter(({ key, isBusy }) => isBusy || titled || key.toLowerCase().includes(query)
            || asText(data[key] ?? '').toLowerCase().includes(query));
        const cut = !query && rows.length >= most + FEWEST;
        const shown = new Set(cut && !view.all ? found.filter(({ isOpen }, index) => isOpen || index < most) : found);
        for (const row of rows) row.element.hidden = !shown.has(row);
        this.found += found.length;
        const folded = view.folded && !query;
        view.element.hidden = found.length === 0;
        view.list.hidden = folded;
        view.more.hidden = !cut || folded;
        view.more.textContent = view.all ? say('showFewer') : say('showAll', { count: rows.length });
        view.title.setAttribute('aria-expanded', String(!folded));
        view.caret.classList.toggle('fa-caret-down', !folded);
        view.caret.classList.toggle('fa-caret-right', folded);
    }

    /**
     * @param {string|null} id
     * @returns {GroupView}
     */
    #groupView(id) {
        const known = this.#groupViews.get(id);
        if (known) return known;
        const turn = (/** @type {'folded'|'all'} */ what) => {
            view[what] = !view[what];
            this.update(this.#groups);
        };
        const caret = make('i', { class: 'fa-solid fa-fw', 'aria-hidden': 'true' });
        const name = make('span', {});
        const title = make('button', { type: 'button', class: 'vt-fold', onclick: () => turn('folded') }, caret, name);
        const list = make('div', { class: 'vt-rows' });
        const more = textButton('', () => turn('all'), { class: 'vt-more' });
        const holder = id !== null && this.shown.editable ? new HolderForm(this.shown.tracker, id) : null;
        const change = holder ? iconButton('fa-pen', say('holderChange'), () => holder.toggle(), 'vt-holder') : null;
        const heading = make('div', { class: 'vt-group-head' }, make('h4', { class: 'vt-group-title' }, title), change);
        const element = make('section', { class: 'vt-group' }, heading, holder?.element, list, more);
        /** @type {GroupView} */
        const view = { element, title, caret, name, list, more, folded: false, all: false };
        this.#groupViews.set(id, view);
        return view;
    }

    /**
     * @param {string} name
     * @param {string|null} id
     * @param {string} key
     * @param {any} value
     */
    #row(name, id, key, value) {
        const known = this.#rows.get(name);
        if (known) {
            known.update(value);
            return known;
        }
        const row = new ValueRow(this.shown, id, key, value);
        this.#rows.set(name, row);
        return row;
    }
}

/**
 * Return the groups of a state: the chat's own values first, then the instances, those of one character together.
 *
 * @param {Record<string, any>} data
 * @param {Array<{instance: {id: string, name: string|null, characterId: string}, data: Record<string, any>}>} instances
 * @returns {Group[]}
 */
export function groupsOf(data, instances) {
    const byCharacter = Map.groupBy
        ? Map.groupBy(instances, ({ instance }) => instance.characterId)
        : instances.reduce((map, one) => map.set(one.instance.characterId, [...(map.get(one.instance.characterId) ?? []), one]), new Map());
    const names = namesOf(instances.map(({ instance }) => instance));
    const others = [...byCharacter].flatMap(([characterId, some]) => {
        const character = personName(characterId);
        return some.map((/** @type {any} */ { instance, data: values }) => {
            const own = names.get(instance.id) ?? character;
            const title = own === character ? character : say('instanceCount', { name: character, instance: own });
            return { id: instance.id, title, data: values };
        });
    });
    return [{ id: null, title: say('chatGroup'), data }, ...others];
}
