/**
 * The forms that give a value another name or holder, and a holder another name, or join it with
 * another one.
 */

import { make, textButton } from '../dom.js';
import { say } from '../strings.js';
import { joinHolders, moveValue, renameHolder, sharedKeys } from '../values/moving.js';
import { isKey } from '../values/paths.js';
import { withKeys } from './editor.js';
import { valueShown } from './valueshown.js';

const LONGEST_NAME = 1024;

/** A form that opens below its button, with a place for a problem. */
class Form {
    constructor() {
        this.element = make('div', { class: 'vt-moving', hidden: true });
        this.problem = make('div', { class: 'vt-problem', role: 'alert', hidden: true });
    }

    /** @param {Element[]} parts @param {() => void} save */
    open(parts, save) {
        this.complain('');
        const form = withKeys(make('div', { class: 'vt-moving-form' }, ...parts, this.problem), save, () => this.close());
        this.element.replaceChildren(form);
        this.element.hidden = false;
        form.querySelector('input')?.focus();
        this.element.scrollIntoView({ block: 'nearest' });
    }

    close() {
        this.element.hidden = true;
        this.element.replaceChildren();
    }

    /** @param {string} problem */
    complain(problem) {
        this.problem.textContent = problem;
        this.problem.hidden = !problem;
    }

    /** @param {() => Promise<unknown>} action */
    async attempt(action) {
        try {
            await action();
        } catch (error) {
            this.complain(say('errorNotice', { error: /** @type {Error} */ (error).message }));
        }
    }
}

/**
 * @param {string} value
 */
function nameInput(value) {
    return make('input', { type: 'text', class: 'text_pole', value, 'aria-label': say('name'), placeholder: say('name'), maxlength: LONGEST_NAME, autocomplete: 'off' });
}

/**
 * @param {string[]} names
 * @param {string} selected
 * @param {string} label
 */
function holderSelect(names, selected, label) {
    return make('select', { class: 'text_pole', 'aria-label': label, title: label },
        make('option', { value: '' }, say('chatGroup')),
        ...names.map((name) => make('option', { value: name, selected: name === selected }, name)));
}

/** The name and the holder of a value. */
export class MoveForm extends Form {
    /** @param {import('./valuerow.js').ValueRow} row */
    constructor(row) {
        super();
        this.row = row;
    }

    toggle() {
        if (!this.element.hidden) {
            this.close();
            return;
        }
        const { shown: { tracker }, instanceId, key } = this.row;
        const whom = holderSelect(tracker.holders, instanceId === null ? '' : tracker.holderName(instanceId), say('belongsTo'));
        const name = nameInput(key);
        let asked = '';
        const button = textButton(say('save'), () => save(), { class: 'vt-primary' });
        const save = () => this.attempt(async () => {
            const to = name.value.trim();
            if (!isKey(to)) {
                this.complain(say('nameNeeded'));
                return;
            }
            const where = JSON.stringify([whom.value, to]);
            const found = await moveValue(tracker, this.row, whom.value, to, asked === where);
            if (!found) {
                this.close();
                return;
            }
            asked = where;
            this.complain(say('moveTaken', { key: to, value: valueShown(found.taken).textContent }));
            button.textContent = say('replace');
        });
        this.open([make('div', { class: 'vt-pair' }, whom, name),
            make('div', { class: 'vt-buttons' }, textButton(say('cancel'), () => this.close()), button)], save);
    }
}

/** The name of a holder, and another one to join it with. */
export class HolderForm extends Form {
    /**
     * @param {import('../values/tracker.js').Tracker} tracker
     * @param {string} instanceId
     */
    constructor(tracker, instanceId) {
        super();
        this.tracker = tracker;
        this.instanceId = instanceId;
    }

    toggle() {
        if (!this.element.hidden) {
            this.close();
            return;
        }
        const { tracker, instanceId } = this;
        const own = tracker.holderName(instanceId);
        const name = nameInput(own);
        const others = tracker.holders.filter((one) => one !== own);
        const whom = holderSelect(others, others[0] ?? '', say('joinWith'));
        let asked = '';
        const rename = () => this.attempt(async () => {
            const to = name.value.trim();
            if (!isKey(to)) this.complain(say('nameNeeded'));
            else if (others.some((one) => one.toLowerCase() === to.toLowerCase())) this.complain(say('holderTaken', { name: to }));
            else {
                await renameHolder(tracker, instanceId, to);
                this.close();
            }
        });
        const join = () => this.attempt(async () => {
            const both = sharedKeys(tracker, instanceId, whom.value);
            if (both.length && asked !== whom.value) {
                asked = whom.value;
                this.complain(say('joinClash', { keys: both.join(', '), name: whom.value || say('chatGroup') }));
                return;
            }
            await joinHolders(tracker, instanceId, whom.value);
            this.close();
        });
        this.open([
            make('div', { class: 'vt-pair' }, name, textButton(say('rename'), rename, { class: 'vt-primary vt-rename' })),
            make('div', { class: 'vt-pair' }, whom, textButton(say('join'), join, { class: 'vt-join' })),
        ], rename);
    }
}
