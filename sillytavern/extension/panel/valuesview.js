/**
 * The values of a chat: its own, then those of its instances, by character.
 *
 * Where there are many, each group shows its first ones until it is asked for all of them, and a
 * search shows those that match.
 */

import { make, place, textButton } from '../dom.js';
import { say } from '../strings.js';
import { characterName } from '../values/tracker.js';
import { asText } from '../values/typed.js';
import { ValueRow } from './valuerow.js';

/** More than this is many; then so many are shown, of all groups together. */
const MANY = 20;
const SHOWN = 12;
/** A group shows at least so many, and hides no fewer. */
const FEWEST = 3;

/**
 * One heading with its values.
 *
 * @typedef {object} Group
 * @property {string|null} id of the instance
 * @property {string} title
 * @property {Record<string, any>} data
 */

/** @typedef {{element: any, title: any, caret: any, name: any, list: any, more: any, folded: boolean, all: boolean}} Shelf */

export class ValuesView {
    /** @type {Map<string, ValueRow>} */
    #rows = new Map();
    /** @type {Map<string|null, Shelf>} */
    #shelves = new Map();
    /** @type {Group[]} */
    #groups = [];
    #sought = '';

    /** @param {import('./valuerow.js').Shown} shown */
    constructor(shown) {
        this.shown = shown;
        this.element = make('div', { class: 'vt-groups' });
        /** How many values there are, and how many of them the search lets through. */
        this.count = 0;
        this.found = 0;
    }

    /** Forget all rows: another chat is shown. */
    clear() {
        this.#rows.clear();
        this.#shelves.clear();
        this.#groups = [];
        this.element.replaceChildren();
    }

    /** @param {string} text what a value is called, or says */
    search(text) {
        const sought = text.trim().toLowerCase();
        if (sought === this.#sought) return;
        this.#sought = sought;
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
        place(this.element, listed.map((group) => {
            const { id, title, data, keys } = group;
            const shelf = this.#shelf(id);
            const rows = keys.map((key) => {
                const name = JSON.stringify([id, key]);
                seen.add(name);
                return this.#row(name, id, key, Object.hasOwn(data, key) ? data[key] : undefined);
            });
            shelf.name.textContent = title;
            place(shelf.list, rows.map(({ element }) => element));
            this.#thin(shelf, group, rows, most);
            return shelf.element;
        }));
        for (const name of [...this.#rows.keys()]) if (!seen.has(name)) this.#rows.delete(name);
        for (const id of [...this.#shelves.keys()]) if (!listed.some((group) => group.id === id)) this.#shelves.delete(id);
        // Where a row was that is gone, the next one has the focus.
        if (focused >= 0 && !this.element.contains(document.activeElement)) {
            [...this.#rows.values()].at(Math.min(focused, this.#rows.size - 1))?.name.focus();
        }
    }

    /**
     * The groups with the keys they show. What somebody is editing stays, also when it is gone.
     *
     * @param {Group[]} groups
     */
    #withBusy(groups) {
        const listed = groups.map((group) => ({ ...group, keys: Object.keys(group.data) }));
        for (const { isBusy, instanceId, key } of this.#rows.values()) {
            if (!isBusy) continue;
            let group = listed.find(({ id }) => id === instanceId);
            if (!group) listed.push(group = { id: instanceId, title: this.#shelf(instanceId).name.textContent, data: {}, keys: [] });
            if (!group.keys.includes(key)) group.keys.push(key);
        }
        return listed;
    }

    /**
     * Hides what is not sought, and what is too much.
     *
     * @param {Shelf} shelf
     * @param {Group} group
     * @param {ValueRow[]} rows
     * @param {number} most
     */
    #thin(shelf, { title, data }, rows, most) {
        const sought = this.#sought;
        const titled = title.toLowerCase().includes(sought);
        const found = rows.filter(({ key, isBusy }) => isBusy || titled || key.toLowerCase().includes(sought)
            || asText(data[key] ?? '').toLowerCase().includes(sought));
        const cut = !sought && rows.length >= most + FEWEST;
        const shown = new Set(cut && !shelf.all ? found.filter(({ isOpen }, index) => isOpen || index < most) : found);
        for (const row of rows) row.element.hidden = !shown.has(row);
        this.found += found.length;
        const folded = shelf.folded && !sought;
        shelf.element.hidden = found.length === 0;
        shelf.list.hidden = folded;
        shelf.more.hidden = !cut || folded;
        shelf.more.textContent = shelf.all ? say('showFewer') : say('showAll', { count: rows.length });
        shelf.title.setAttribute('aria-expanded', String(!folded));
        shelf.caret.classList.toggle('fa-caret-down', !folded);
        shelf.caret.classList.toggle('fa-caret-right', folded);
    }

    /**
     * @param {string|null} id
     * @returns {Shelf}
     */
    #shelf(id) {
        const known = this.#shelves.get(id);
        if (known) return known;
        const turn = (/** @type {'folded'|'all'} */ what) => {
            shelf[what] = !shelf[what];
            this.update(this.#groups);
        };
        const caret = make('i', { class: 'fa-solid fa-fw', 'aria-hidden': 'true' });
        const name = make('span', {});
        const title = make('button', { type: 'button', class: 'vt-fold', onclick: () => turn('folded') }, caret, name);
        const list = make('div', { class: 'vt-rows' });
        const more = textButton('', () => turn('all'), { class: 'vt-more' });
        const element = make('section', { class: 'vt-group' }, make('h4', { class: 'vt-group-title' }, title), list, more);
        /** @type {Shelf} */
        const shelf = { element, title, caret, name, list, more, folded: false, all: false };
        this.#shelves.set(id, shelf);
        return shelf;
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
 * The groups of a whole state, the chat's own first; instances of one character stand together.
 *
 * @param {Record<string, any>} data
 * @param {Array<{instance: {id: string, name: string|null, characterId: string}, data: Record<string, any>}>} instances
 * @returns {Group[]}
 */
export function groupsOf(data, instances) {
    const byCharacter = Map.groupBy
        ? Map.groupBy(instances, ({ instance }) => instance.characterId)
        : instances.reduce((map, one) => map.set(one.instance.characterId, [...(map.get(one.instance.characterId) ?? []), one]), new Map());
    const others = [...byCharacter].flatMap(([characterId, some]) => {
        const character = characterName(characterId);
        return some.map((/** @type {any} */ { instance, data: values }) => {
            const own = instance.name ?? (some.length > 1 ? instance.id : character);
            const title = own === character ? character : say('instanceCount', { name: character, instance: own });
            return { id: instance.id, title, data: values };
        });
    });
    return [{ id: null, title: say('chatGroup'), data }, ...others];
}
