/**
 * The form to edit a value: its kind, and an input for that kind.
 */

import { make, textButton } from '../dom.js';
import { say } from '../strings.js';
import { asInput, brokenJson, kindOf, read } from '../values/typed.js';

/** @typedef {import('../values/typed.js').Kind} Kind */

/** @type {Array<[Kind, any]>} */
const KINDS = [['auto', 'kindAuto'], ['text', 'kindText'], ['number', 'kindNumber'], ['switch', 'kindSwitch'], ['json', 'kindJson'], ['nothing', 'kindNothing']];

/** About how many characters fit on a line. */
const LINE = 34;
const MOST_LINES = 10;

/** An input for a value of any kind; the typed text stays when the kind changes. */
export class ValueInput {
    /**
     * @param {any} value
     * @param {Kind} [kind] `auto`: find the kind from the text, for new values
     */
    constructor(value, kind = kindOf(value)) {
        /** @type {Kind} */
        this.kind = kind;
        this.#typed = asInput(this.kind, value);
        this.select = make('select', { class: 'text_pole vt-kind', title: say('kind'), 'aria-label': say('kind'), onchange: () => this.#changeKind() },
            ...KINDS.filter(([one]) => one !== 'auto' || kind === 'auto')
                .map(([one, name]) => make('option', { value: one, selected: one === kind }, say(name))));
        this.holder = make('div', { class: 'vt-input' });
        this.problem = make('div', { class: 'vt-problem', role: 'alert', hidden: true });
        this.#show();
    }

    #typed = '';
    /** The text that was asked about. @type {string|null} */
    #asked = null;
    /** @type {any} */
    #input = null;

    #changeKind() {
        this.#typed = this.#input?.value ?? this.#typed;
        this.kind = this.select.value;
        this.#show();
        this.focus();
    }

    #show() {
        const common = { class: 'text_pole', 'aria-label': say('value'), placeholder: say('value'), value: this.#typed };
        this.problem.hidden = true;
        if (this.kind === 'switch') {
            this.#input = make('select', { class: 'text_pole', 'aria-label': say('value') },
                make('option', { value: 'true' }, say('yes')), make('option', { value: 'false' }, say('no')));
            this.#input.value = this.#typed === 'true' ? 'true' : 'false';
        } else if (this.kind === 'nothing') {
            this.#input = make('input', { class: 'text_pole', disabled: true, placeholder: say('nothing') });
        } else if (this.kind === 'number') {
            this.#input = make('input', { ...common, type: 'text', inputmode: 'decimal', autocomplete: 'off' });
        } else {
            const lines = this.#typed.split('\n').reduce((sum, line) => sum + Math.max(Math.ceil(line.length / LINE), 1), 0);
            this.#input = make('textarea', { ...common, class: this.kind === 'json' ? 'text_pole vt-code' : 'text_pole', rows: Math.min(Math.max(lines, this.kind === 'json' ? 3 : 1), MOST_LINES), spellcheck: String(this.kind === 'text') });
        }
        this.holder.replaceChildren(this.#input);
    }

    focus() {
        this.#input.focus();
        // At the end of the text: what is typed by mistake replaces nothing.
        const end = this.#input.value?.length ?? 0;
        if (this.#input.tagName !== 'SELECT') this.#input.setSelectionRange?.(end, end);
    }

    /** Return the value, or show the problem and return null. @returns {{value: any}|null} */
    take() {
        const text = this.kind === 'nothing' ? '' : this.#input.value;
        const found = read(this.kind, text);
        const broken = this.kind === 'auto' ? brokenJson(text) : '';
        // Somebody who begins a list or an object rarely means text: ask once.
        if (broken && this.#asked !== text) {
            this.#asked = text;
            this.complain(say('looksJson', { error: broken }));
            return null;
        }
        if ('value' in found) {
            this.complain('');
            return found;
        }
        this.complain(say(found.problem, { error: found.error }));
        return null;
    }

    /** @param {string} text */
    showMessage(text) {
        this.problem.textContent = text;
        this.problem.hidden = !text;
    }

    /** @param {string} problem */
    complain(problem) {
        this.showMessage(problem);
        this.#input.classList.toggle('vt-wrong', Boolean(problem));
        if (problem) this.#input.focus();
    }
}

/**
 * Save on Enter (Ctrl+Enter in a text of several lines), leave on Escape.
 *
 * @param {any} form
 * @param {() => void} save
 * @param {() => void} leave
 */
export function withKeys(form, save, leave) {
    form.addEventListener('keydown', (/** @type {KeyboardEvent} */ event) => {
        // SillyTavern has its own keys: arrows swipe, Escape stops.
        event.stopPropagation();
        if (event.isComposing) return;
        const target = /** @type {any} */ (event.target);
        const several = target.tagName === 'TEXTAREA' && target.value.includes('\n') && !event.ctrlKey;
        if (event.key === 'Escape') leave();
        else if (event.key === 'Enter' && !event.shiftKey && !several && target.tagName !== 'BUTTON') {
            event.preventDefault();
            save();
        }
    });
    return form;
}

/**
 * @param {any} value
 * @param {(value: any) => Promise<void>} save
 * @param {() => void} leave
 * @returns {{form: any, input: ValueInput}}
 */
export function editor(value, save, leave) {
    const input = new ValueInput(value);
    const submit = async () => {
        const taken = input.take();
        if (!taken) return;
        try {
            await save(taken.value);
        } catch (error) {
            input.complain(say('errorNotice', { error: /** @type {Error} */ (error).message }));
        }
    };
    const form = make('div', { class: 'vt-editor' }, input.holder, input.problem,
        make('div', { class: 'vt-buttons' }, input.select, textButton(say('cancel'), leave), textButton(say('save'), submit, { class: 'vt-primary' })));
    return { form: withKeys(form, submit, leave), input };
}
