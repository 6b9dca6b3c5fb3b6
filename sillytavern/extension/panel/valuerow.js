/**
 * One value: its name, the line of its numbers, the value; and the details when it is opened.
 *
 * The elements are reused as long as the value exists, so the focus stays.
 */

import { exactText } from '../client/valuetracker.js';
import { make, setChildren } from '../dom.js';
import { isInPrompt } from '../settings.js';
import { say } from '../strings.js';
import { BY_PLAYER } from '../values/tracker.js';
import { kindOf } from '../values/typed.js';
import { editor } from './editor.js';
import { sparkline } from './lines.js';
import { ValueDetails } from './valuedetails.js';
import { valueShown } from './valueshown.js';

/**
 * @typedef {object} Shown
 * @property {import('../values/tracker.js').Tracker} tracker
 * @property {import('./lines.js').Lines|null} lines
 * @property {boolean} editable
 * @property {() => void} redraw
 */

export class ValueRow {
    #value;
    /** While editing: the value that the player knows, and the form. @type {{text: string, form: any, input: import('./editor.js').ValueInput}|null} */
    #edited = null;
    /** The details, while the row is open. @type {ValueDetails|null} */
    #details = null;

    /**
     * @param {Shown} shown
     * @param {string|null} instanceId
     * @param {string} key
     * @param {any} value
     */
    constructor(shown, instanceId, key, value) {
        this.shown = shown;
        this.instanceId = instanceId;
        this.key = key;
        this.#value = value;
        this.caret = make('i', { class: 'fa-solid fa-fw fa-caret-right', 'aria-hidden': 'true' });
        this.inPrompt = make('i', { class: 'fa-solid fa-comment-dots vt-told', title: say('includedInPrompt') });
        this.name = make('button', { type: 'button', class: 'vt-key', title: key, onclick: () => this.#toggle() },
            this.caret, make('span', {}, key), this.inPrompt);
        this.line = make('span', { class: 'vt-line' });
        this.cell = shown.editable
            ? make('button', { type: 'button', class: 'vt-cell', title: say('edit'), 'aria-label': `${say('edit')}: ${key}`, onclick: () => this.edit() })
            : make('span', { class: 'vt-cell' });
        this.body = make('div', { class: 'vt-body' });
        this.element = make('div', { class: 'vt-row', 'data-key': key }, make('div', { class: 'vt-head' }, this.name, this.line, this.cell), this.body);
        this.#draw();
    }

    /** True while the value is being edited. */
    get isBusy() {
        return this.#edited !== null;
    }

    /** True while the row is open or being edited. */
    get isOpen() {
        return this.isBusy || this.#details !== null;
    }

    /** @param {any} value undefined: it was removed */
    update(value) {
        this.#value = value;
        this.#draw();
        this.#warn(value);
    }

    /** The name of the value in macros. */
    get reference() {
        return this.shown.tracker.reference(this.instanceId, this.key);
    }

    #draw() {
        const { lines, editable } = this.shown;
        const value = this.#value;
        const open = this.#details !== null;
        this.element.classList.toggle('vt-open', open);
        this.element.classList.toggle('vt-editing', this.isBusy);
        this.name.setAttribute('aria-expanded', String(open));
        this.caret.classList.toggle('fa-caret-down', open);
        this.caret.classList.toggle('fa-caret-right', !open);
        this.inPrompt.hidden = !editable || !isInPrompt(this.reference);
        const numbers = kindOf(value) === 'number' && lines ? lines.numbers(this.instanceId, this.key, value) : [];
        this.line.replaceChildren(...(new Set(numbers).size > 1 ? [sparkline(numbers)] : []));
        this.cell.replaceChildren(valueShown(value));
        this.#details?.update(value);
        setChildren(this.body, this.#edited ? [this.#edited.form] : this.#details?.elements ?? []);
    }

    #toggle() {
        this.#edited = null;
        this.#details = this.#details ? null : new ValueDetails(this.shown, this);
        this.#draw();
        this.shown.redraw();
    }

    edit() {
        if (!this.#edited) {
            const { form, input } = editor(this.#value, async (value) => {
                // The value may have changed a moment ago: show that before saving.
                if (this.#warn(this.#now)) return;
                await this.#row.set(this.key, value, BY_PLAYER);
                this.#leave();
            }, () => this.#leave());
            this.#edited = { text: exactText(this.#value), form, input };
            this.#draw();
        }
        this.#edited.input.focus();
    }

    /**
     * Warn a player who is editing that the value has changed.
     *
     * @param {any} value
     * @returns {boolean}
     */
    #warn(value) {
        const text = exactText(value);
        if (!this.#edited || this.#edited.text === text) return false;
        this.#edited.text = text;
        this.#edited.input.showMessage(value === undefined ? say('removedMeanwhile') : say('changedMeanwhile', { value: valueShown(value).textContent }));
        return true;
    }

    #leave() {
        const focused = this.body.contains(document.activeElement);
        this.#edited = null;
        this.#draw();
        if (focused) this.cell.focus();
        // The value may have been removed: redraw the list.
        this.shown.redraw();
    }

    async remove() {
        const before = this.#now;
        await this.#row.remove(this.key, BY_PLAYER);
        this.shown.tracker.emit('removed', { instanceId: this.instanceId, key: this.key, before });
    }

    get #row() {
        const { chat } = this.shown.tracker;
        return this.instanceId === null ? chat : chat.instance(this.instanceId);
    }

    get #now() {
        const { state } = this.#row;
        return Object.hasOwn(state, this.key) ? state[this.key] : undefined;
    }
}
