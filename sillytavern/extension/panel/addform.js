/**
 * The form that adds a value to the chat or to one of its characters.
 */

import { make, textButton } from '../dom.js';
import { say } from '../strings.js';
import { isKey } from '../values/paths.js';
import { BY_PLAYER } from '../values/tracker.js';
import { ValueInput, withKeys } from './editor.js';

const LONGEST_NAME = 1024;

export class AddForm {
    /** @param {import('../values/tracker.js').Tracker} tracker */
    constructor(tracker) {
        this.tracker = tracker;
        this.button = textButton(say('add'), () => this.#open(), { class: 'vt-add' });
        this.element = make('div', { class: 'vt-adding' }, this.button);
    }

    close() {
        if (this.element.firstChild === this.button) return;
        const focused = this.element.contains(document.activeElement);
        this.element.replaceChildren(this.button);
        if (focused) this.button.focus();
    }

    #open() {
        const whom = make('select', { class: 'text_pole', 'aria-label': say('belongsTo') },
            make('option', { value: '' }, say('chatGroup')),
            ...this.tracker.holders.map((name) => make('option', { value: name }, name)));
        const name = make('input', { type: 'text', class: 'text_pole', placeholder: say('name'), 'aria-label': say('name'), maxlength: LONGEST_NAME, autocomplete: 'off' });
        const input = new ValueInput('', 'auto');
        const add = async () => {
            const key = name.value.trim();
            const taken = input.take();
            if (!taken) return;
            try {
                const problem = await this.#add(whom.value, key, taken.value);
                if (problem) input.complain(problem);
                else this.close();
            } catch (error) {
                input.complain(say('errorNotice', { error: /** @type {Error} */ (error).message }));
            }
        };
        const form = make('div', { class: 'vt-editor' },
            make('div', { class: 'vt-pair' }, whom, name), input.holder, input.problem,
            make('div', { class: 'vt-buttons' }, input.select,
                textButton(say('cancel'), () => this.close()), textButton(say('save'), add, { class: 'vt-primary' })));
        this.element.replaceChildren(withKeys(form, add, () => this.close()));
        name.focus();
    }

    /**
     * @param {string} whom
     * @param {string} key
     * @param {any} value
     * @returns {Promise<string>} the problem; empty if there is none
     */
    async #add(whom, key, value) {
        if (!isKey(key)) return say('nameNeeded');
        const row = whom ? await this.tracker.instanceOf(whom) : this.tracker.chat;
        if (Object.hasOwn(row.state, key)) return say('nameTaken');
        await row.set(key, value, BY_PLAYER);
        return '';
    }
}
