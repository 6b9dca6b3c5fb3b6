/**
 * The details of a value: its full text, the prompt setting, its macro, its history.
 *
 * The elements are created once and then updated, so that an open question and the focus stay.
 */

import { exactText } from '../client/valuetracker.js';
import { iconButton, make, moment, textButton } from '../dom.js';
import { isInPrompt, setInPrompt, settings } from '../settings.js';
import { say } from '../strings.js';
import { macrosWork } from '../tavern/macros.js';
import { asText, kindOf } from '../values/typed.js';
import { change } from './differences.js';
import { KeyHistory } from './keyhistory.js';
import { MoveForm } from './moveforms.js';
import { Question } from './question.js';
import { Refresher } from './refresher.js';
import { valueShown } from './valueshown.js';

/** Changes within this time are read together. */
const HISTORY_MS = 200;
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
            icon: 'fa-trash-can', title: say('removeValue'), question: say('removeSure', { key: row.key }), answer: say('remove'), act: () => row.remove().catch(() => {}),
        });
        this.moving = new MoveForm(row);
        const move = iconButton('fa-right-left', say('moveValue'), () => this.moving.toggle(), 'vt-move');
        this.code = make('code', {});
        this.macro = make('div', { class: 'vt-macro' }, `${say('macro')} `, this.code);
        this.macrosOff = make('div', { class: 'vt-faint' }, say('macrosOff'));
        this.history = make('ol', { class: 'vt-history', 'aria-label': say('history') });
        this.noHistory = make('div', { class: 'vt-faint' }, say('noHistory'));
        this.past = new KeyHistory(row.instanceId, row.key);
        this.reading = new Refresher(() => this.#read(), HISTORY_MS);
        this.more = textButton(say('olderChanges'), () => {
            this.past.extend();
            this.reading.request(0);
        }, { class: 'vt-older' });
        this.elements = [
            this.full,
            ...(shown.editable ? [make('div', { class: 'vt-facts' }, this.label, make('span', {}, move, this.removal.button)), this.removal.asking, this.moving.element, this.macro, this.macrosOff] : []),
            ...(shown.lines ? [this.history, this.noHistory, this.more] : []),
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
        if (this.shown.lines) {
            this.#draw();
            // Each new state of the chat's history may have changes of this value.
            if (this.#seen !== this.shown.lines.items) this.reading.request(this.past.known ? HISTORY_MS : 0);
            this.#seen = this.shown.lines.items;
        }
    }

    /** @type {unknown} */
    #seen = null;

    async #read() {
        const { chat } = this.shown.tracker;
        // Without the server the history is not known.
        if (!chat || chat.away || !this.history.isConnected) return;
        await this.past.load(chat);
        this.#draw();
    }

    #draw() {
        const { items, hasMore, known } = this.past;
        const away = Boolean(this.shown.tracker.chat?.away);
        this.history.hidden = items.length === 0;
        this.noHistory.textContent = say(away ? 'historyAway' : 'noHistory');
        this.noHistory.hidden = items.length > 0 || !(known || away);
        this.more.hidden = !hasMore;
        this.history.replaceChildren(...items.map((item) => this.#item(item)));
    }

    /** @param {import('./lines.js').Item} item */
    #item(item) {
        const counts = item.live && !item.superseded;
        return make('li', { class: counts ? '' : 'vt-dormant' },
            make('span', { class: 'vt-when', title: moment(item.at, true) }, `${this.#who(item)} · ${moment(item.at)}`),
            item.superseded
                ? make('span', { class: 'vt-change' }, valueShown(item.value))
                : change(item.before, item.after));
    }

    /** @param {import('./lines.js').Item} item */
    #who({ actor, anchor, live, op, superseded }) {
        if (!live) return say('undone');
        if (superseded) return say('superseded');
        if (op === 'restore') return say('byRestore');
        if (op === 'branch') return say('byBranch');
        if (actor === 'user') return say('byYou');
        if (!anchor) return say('byExtension');
        const index = this.shown.tracker.chat?.messageIndex(anchor.messageId) ?? -1;
        return index >= 0 ? say('byModel', { index }) : say('byMessage');
    }
}
