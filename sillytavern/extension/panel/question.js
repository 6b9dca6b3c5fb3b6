/**
 * A button that asks for confirmation before an action that cannot be undone.
 */

import { iconButton, make, textButton } from '../dom.js';
import { say } from '../strings.js';

export class Question {
    /**
     * @param {object} about
     * @param {string} about.icon
     * @param {string} about.title of the button
     * @param {string} about.question
     * @param {string} about.answer the label of the button that confirms
     * @param {() => unknown} about.act
     * @param {string} [about.name] another class of the button
     */
    constructor({ icon, title, question, answer, act, name }) {
        this.button = iconButton(icon, title, () => this.#ask(), name);
        this.no = textButton(say('cancel'), () => this.withdraw());
        this.yes = textButton(answer, () => {
            this.withdraw();
            act();
        }, { class: 'vt-danger' });
        this.asking = make('div', { class: 'vt-asking', role: 'group', 'aria-label': question, hidden: true }, make('span', {}, question), this.no, this.yes);
        this.asking.addEventListener('keydown', (/** @type {KeyboardEvent} */ { key }) => {
            if (key === 'Escape') this.withdraw();
        });
    }

    #ask() {
        this.button.hidden = true;
        this.asking.hidden = false;
        this.no.focus();
        this.asking.scrollIntoView({ block: 'nearest' });
    }

    withdraw() {
        const focused = this.asking.contains(document.activeElement);
        this.asking.hidden = true;
        this.button.hidden = false;
        if (focused) this.button.focus();
    }
}
