/**
 * One value: its name, what it is, the line of its numbers; and behind it, the details.
 */

import { exactText } from './client/valuetracker.js';
import { iconButton, make, moment, textButton } from './dom.js';
import { editor } from './editor.js';
import { sparkline } from './lines.js';
import { macrosWork } from './macros.js';
import { isTold, settings, tell } from './settings.js';
import { say } from './strings.js';
import { PERSON } from './tracker.js';
import { asText, kindOf, meant } from './typed.js';

const SHOWN_HISTORY = 12;
const LONGEST = 200;

/**
 * What is shown for a value on one line.
 *
 * @param {any} value undefined is one that is not there
 * @returns {any}
 */
export function valueShown(value) {
    const kind = value === undefined ? 'absent' : kindOf(value);
    const words = { absent: say('absent'), nothing: say('nothing'), switch: value ? say('yes') : say('no') };
    const text = kind in words ? words[/** @type {keyof typeof words} */ (kind)] : asText(value);
    const short = text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text;
    // Text that could be taken for something else stands in quotes.
    const quoted = kind === 'text' && (!text.trim() || typeof meant(text) !== 'string');
    return make('span', { class: `vt-value vt-${kind}` }, quoted ? `"${short}"` : short);
}

/**
 * @typedef {object} Shown
 * @property {import('./tracker.js').Tracker} tracker
 * @property {import('./lines.js').Lines|null} lines
 * @property {boolean} editable
 */

export class ValueRow {
    #value;
    #editing = false;
    /** What the value was when it began to be edited, and the input. @type {{text: string, input: import('./editor.js').ValueInput}|null} */
    #edited = null;
    #open = false;

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
        this.head = make('div', { class: 'vt-head' });
        this.body = make('div', { class: 'vt-body' });
        this.element = make('div', { class: 'vt-row', 'data-key': key }, this.head, this.body);
        this.#draw();
    }

    get isBusy() {
        return this.#editing;
    }

    /** @param {any} value */
    update(value) {
        this.#value = value;
        this.#draw();
        if (this.#editing && this.#edited && this.#edited.text !== exactText(value)) {
            this.#edited.input.tell(say('changedMeanwhile', { value: valueShown(value).textContent }));
        }
    }

    get #reference() {
        return this.shown.tracker.reference(this.instanceId, this.key);
    }

    #draw() {
        const { lines, editable } = this.shown;
        const numbers = lines?.numbers(this.instanceId, this.key, this.#value) ?? [];
        const told = editable && isTold(this.#reference);
        this.element.classList.toggle('vt-open', this.#open);
        this.head.replaceChildren(
            make('button', {
                type: 'button', class: 'vt-key', title: this.key, 'aria-expanded': String(this.#open), onclick: () => this.#toggle(),
            }, make('i', { class: `fa-solid fa-fw ${this.#open ? 'fa-caret-down' : 'fa-caret-right'}`, 'aria-hidden': 'true' }),
            make('span', {}, this.key),
            told ? make('i', { class: 'fa-solid fa-comment-dots vt-told', title: say('toldModel') }) : null),
            new Set(numbers).size > 1 ? sparkline(numbers) : make('span', { class: 'vt-line' }),
            editable
                ? make('button', { type: 'button', class: 'vt-cell', title: say('edit'), 'aria-label': `${say('edit')}: ${this.key}`, onclick: () => this.edit() }, valueShown(this.#value))
                : make('span', { class: 'vt-cell' }, valueShown(this.#value)),
        );
        if (this.#editing) return;
        this.body.replaceChildren(...(this.#open ? this.#details() : []));
    }

    #toggle() {
        if (this.#editing) this.#leave();
        this.#open = !this.#open;
        this.#draw();
    }

    edit() {
        if (this.#editing) return;
        this.#editing = true;
        const { form, input } = editor(this.#value, async (value) => {
            await this.#row.set(this.key, value, PERSON);
            this.#leave();
        }, () => this.#leave());
        this.#edited = { text: exactText(this.#value), input };
        this.element.classList.add('vt-editing');
        this.body.replaceChildren(form);
        input.focus();
    }

    #leave() {
        this.#editing = false;
        this.element.classList.remove('vt-editing');
        this.#draw();
    }

    get #row() {
        const { chat } = this.shown.tracker;
        return this.instanceId === null ? chat : chat.instance(this.instanceId);
    }

    /** @returns {Element[]} */
    #details() {
        const { lines, editable } = this.shown;
        const full = kindOf(this.#value) === 'json' ? exactText(this.#value, 2) : asText(this.#value);
        const parts = [];
        if (full.length > 30 || kindOf(this.#value) === 'json') parts.push(make('pre', { class: 'vt-full' }, full));
        if (editable) {
            const all = settings().inject === 'all';
            const told = make('input', { type: 'checkbox', disabled: all, onchange: (/** @type {any} */ event) => tell(this.#reference, event.target.checked) });
            told.checked = isTold(this.#reference);
            parts.push(make('div', { class: 'vt-facts' },
                make('label', { class: 'checkbox_label', title: all ? say('toldAll') : '' }, told, make('span', {}, say('tellModel'))), this.#removal()),
            make('div', { class: 'vt-macro' }, `${say('macro')} `, make('code', {}, `{{vt::${this.#reference}}}`)));
            if (!macrosWork()) parts.push(make('div', { class: 'vt-faint' }, say('macrosOff')));
        }
        if (lines) parts.push(this.#history(lines));
        return parts;
    }

    #removal() {
        const holder = make('div', { class: 'vt-buttons' });
        const ask = () => holder.replaceChildren(
            make('span', {}, say('removeSure', { key: this.key })),
            textButton(say('cancel'), offer),
            textButton(say('remove'), () => this.#row.remove(this.key, PERSON).catch(() => {}), { class: 'vt-danger' }));
        const offer = () => holder.replaceChildren(iconButton('fa-trash-can', say('removeValue'), ask));
        offer();
        return holder;
    }

    /** @param {import('./lines.js').Lines} lines */
    #history(lines) {
        const items = lines.of(this.instanceId, this.key).slice(0, SHOWN_HISTORY);
        if (!items.length) return make('div', { class: 'vt-faint' }, say('noHistory'));
        return make('ol', { class: 'vt-history', 'aria-label': say('history') }, ...items.map((item) => make('li', { class: item.live ? '' : 'vt-dormant' },
            make('span', { class: 'vt-when', title: new Date(item.at).toLocaleString() }, `${this.#who(item)} · ${moment(item.at)}`),
            make('span', { class: 'vt-change' }, valueShown(item.before), ' → ', valueShown(item.after)))));
    }

    /** @param {import('./lines.js').Item} item */
    #who({ actor, anchor, live }) {
        const index = anchor ? this.shown.tracker.chat?.messageIndex(anchor.messageId) ?? -1 : -1;
        if (!live) return say('tookBack');
        if (actor === 'user') return say('byYou');
        return index >= 0 ? say('byModel', { index }) : say('byExtension');
    }
}
