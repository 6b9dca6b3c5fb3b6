/**
 * A preview of the changes that restoring a checkpoint would make. While it is open, it is read again
 * after each change of a value.
 */

import { make, textButton } from '../dom.js';
import { say } from '../strings.js';
import { differenceList } from './differences.js';

export class RestorePreview {
    #open = false;
    #reads = 0;
    /** True if the checkpoint does not validate. */
    #invalid = false;

    /**
     * @param {object} about
     * @param {string} about.name of the checkpoint
     * @param {any} about.chat
     * @param {import('../values/tracker.js').Tracker} about.tracker
     * @param {(force: boolean) => void} about.restore
     * @param {(problem: string) => void} about.complain
     */
    constructor({ name, chat, tracker, restore, complain }) {
        this.name = name;
        this.chat = chat;
        this.tracker = tracker;
        this.complain = complain;
        this.title = make('div', {});
        this.changes = make('div', {});
        this.restore = textButton(say('restore'), () => restore(this.#invalid), { class: 'vt-primary' });
        this.element = make('div', { class: 'vt-preview', hidden: true }, this.title, this.changes,
            make('div', { class: 'vt-buttons' }, textButton(say('cancel'), () => this.close()), this.restore));
    }

    close() {
        this.#open = false;
        this.element.hidden = true;
    }

    async toggle() {
        if (this.#open) {
            this.close();
            return;
        }
        this.#open = true;
        await this.refresh();
        if (this.#open) this.element.scrollIntoView({ block: 'nearest' });
    }

    /** Read the preview again if it is open. */
    async refresh() {
        if (!this.#open) return;
        const { name, chat } = this;
        this.#reads += 1;
        const read = this.#reads;
        try {
            // The diff goes from the checkpoint to now; restoring goes the other way.
            const differences = (await chat.checkpoints.diff(name)).filter((/** @type {any} */ one) => !one.space);
            const report = await chat.checkpoints.restore(name, { dryRun: true });
            if (read !== this.#reads || !this.#open) return;
            const any = differences.length > 0 || report.changed > 0;
            this.title.textContent = say(any ? 'restorePreview' : 'restoreNothing', { name });
            this.changes.replaceChildren(
                differenceList(differences.map((/** @type {any} */ { instanceId, key, before, after }) => (
                    { title: this.tracker.reference(instanceId ?? null, key), before: after, after: before }))),
                ...report.errors.map((/** @type {string} */ error) => make('div', { class: 'vt-problem' }, say('savepointError', { error }))),
                ...report.warnings.map((/** @type {string} */ warning) => make('div', { class: 'vt-faint' }, warning)));
            this.#invalid = !report.success;
            this.restore.textContent = say(report.success ? 'restore' : 'restoreAnyway');
            this.restore.hidden = !any;
            this.element.hidden = false;
        } catch (error) {
            if (read !== this.#reads) return;
            this.close();
            this.complain(/** @type {Error} */ (error).message);
        }
    }
}
