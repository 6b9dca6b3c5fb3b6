/**
 * The values of a chat: its own, then those of its instances, by character.
 */

import { make, place } from './dom.js';
import { say } from './strings.js';
import { characterName } from './tracker.js';
import { ValueRow } from './valuerow.js';

/**
 * One heading with its values.
 *
 * @typedef {object} Group
 * @property {string|null} id of the instance
 * @property {string} title
 * @property {Record<string, any>} data
 */

export class ValuesView {
    /** @type {Map<string, ValueRow>} */
    #rows = new Map();
    /** @type {Map<string|null, {element: any, title: any, list: any}>} */
    #groups = new Map();

    /** @param {import('./valuerow.js').Shown} shown */
    constructor(shown) {
        this.shown = shown;
        this.element = make('div', { class: 'vt-groups' });
    }

    /** Forget all rows: another chat is shown. */
    clear() {
        this.#rows.clear();
        this.#groups.clear();
        this.element.replaceChildren();
    }

    /** @param {Group[]} groups */
    update(groups) {
        const seen = new Set();
        const shown = groups.filter(({ id, data }) => id !== null || Object.keys(data).length);
        for (const id of [...this.#groups.keys()]) if (!shown.some((group) => group.id === id)) this.#groups.delete(id);
        place(this.element, shown.map(({ id, title, data }) => {
            const group = this.#group(id);
            group.title.textContent = title;
            place(group.list, Object.keys(data).map((key) => {
                const name = JSON.stringify([id, key]);
                seen.add(name);
                return this.#row(name, id, key, data[key]).element;
            }));
            return group.element;
        }));
        for (const name of [...this.#rows.keys()]) if (!seen.has(name)) this.#rows.delete(name);
    }

    /** @param {string|null} id */
    #group(id) {
        const known = this.#groups.get(id);
        if (known) return known;
        const title = make('h4', { class: 'vt-group-title' });
        const list = make('div', { class: 'vt-rows' });
        const group = { title, list, element: make('section', { class: 'vt-group' }, title, list) };
        this.#groups.set(id, group);
        return group;
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
