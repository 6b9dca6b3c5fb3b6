/**
 * The details of a value: its full text, the prompt setting, its macro, its history.
 *
 * The elements are created once and then updated, so that an open question and the focus stay.
 */

import { exactText } from '../client/valuetracker.js';
import { make, moment } from '../dom.js';
import { isInPrompt, setInPrompt, settings } from '../settings.js';
import { say } from '../strings.js';
import { macrosWork } from '../tavern/macros.js';
import { asText, kindOf } from '../values/typed.js';
import { Question } from './question.js';
import { valueShown } from './valueshown.js';

const SHOWN_HISTORY = 12;
/** A longer text is cut off in its row. */
const SHORT = 30;

export class ValueDetails {
    /**
     * @param {import('./valuerow.js').Shown} shown
     * @param {import('./valuerow.js').ValueRow} row
     */
    constructor(shown, row) {
        this.shown = shown;
        this.row = row;
        this.full = make('pre', { class: 'vt-full' });
        this.inPrompt = make('input', { type: 'checkbox', onchange: () => setInPrompt(row.reference, this.inPrompt.checked) });
        this.label = make('label', { class: 'checkbox_label' }, this.inPrompt, make('span', {}, say('includeInPrompt')));
        this.removal = new Question({
            icon: 'fa-trash-can', title: say('removeValue'), question: say('removeSure', { key: row.key }), answer: say('remove'), act: () => row.remove(),
        });
        this.code = make('code', {});
        this.macro = make('div', { class: 'vt-macro' }, `${say('macro')} `, this.code);
        this.macrosOff = make('div', { class: 'vt-faint' }, say('macrosOff'));
        this.history = make('ol', { class: 'vt-history', 'aria-label': say('history') });
        this.noHistory = make('div', { class: 'vt-faint' }, say('noHistory'));
        this.elements = [
            this.full,
            ...(shown.editable ? [make('div', { class: 'vt-facts' }, this.label, this.removal.button), this.removal.asking, this.macro, this.macrosOff] : []),
            ...(shown.lines ? [this.history, this.noHistory] : []),
        ];
    }

    /** @param {any} value */
    update(value) {
        const full = kindOf(value) === 'json' ? exactText(value, 2) : asText(value);
        this.full.hidden = full.length <= SHORT && kindOf(value) !== 'json';
        if (this.full.textContent !== full) this.full.textContent = full;
        const { reference } = this.row;
        const all = settings().inject === 'all';
        this.inPrompt.disabled = all;
        this.inPrompt.checked = isInPrompt(reference);
        this.label.title = all ? say('allInPrompt') : '';
        this.code.textContent = `{{vt::${reference}}}`;
        this.macrosOff.hidden = macrosWork();
        const items = this.shown.lines?.of(this.row.instanceId, this.row.key).slice(0, SHOWN_HISTORY) ?? [];
        this.history.hidden = items.length === 0;
        this.noHistory.hidden = items.length > 0;
        this.history.replaceChildren(...items.map((item) => this.#item(item)));
    }

    /** @param {import('./lines.js').Item} item */
    #item(item) {
        const counts = item.live && !item.superseded;
        return make('li', { class: counts ? '' : 'vt-dormant' },
            make('span', { class: 'vt-when', title: new Date(item.at).toLocaleString() }, `${this.#who(item)} · ${moment(item.at)}`),
            item.superseded
                ? make('span', { class: 'vt-change' }, valueShown(item.value))
                : make('span', { class: 'vt-change' }, valueShown(item.before), ' → ', valueShown(item.after)));
    }

    /** @param {import('./lines.js').Item} item */
    #who({ actor, anchor, live, op, superseded }) {
        if (!live) return say('undone');
        if (superseded) return say('superseded');
        if (op === 'restore') return say('byRestore');
        if (actor === 'user') return say('byYou');
        if (!anchor) return say('byExtension');
        const index = this.shown.tracker.chat?.messageIndex(anchor.messageId) ?? -1;
        return index >= 0 ? say('byModel', { index }) : say('byMessage');
    }
}
