/**
 * Notices about save points: what was saved, restored or begun with, and what must end before.
 */

import { make, moment, textButton } from '../dom.js';
import { isOpen } from '../settings.js';
import { say } from '../strings.js';
import { activeOperations, createSavepoint } from '../values/savepoints.js';
import { Refresher } from './refresher.js';

/** @typedef {import('../values/savepoints.js').Told} Told */

const TITLES = { created: 'savedNotice', restored: 'restoredNotice', branched: 'branchedNotice', failed: 'saveFailed' };
const SOON_MS = 100;

export class SaveNotices {
    /** The save point that operations keep from being made. @type {{message: number, name: string, chat: any}|null} */
    #pending = null;
    #refresher = new Refresher(() => this.#showPending(), SOON_MS);

    /**
     * @param {import('../values/tracker.js').Tracker} tracker
     * @param {import('./status.js').Notices} notices
     */
    constructor(tracker, notices) {
        this.tracker = tracker;
        this.notices = notices;
        tracker.on('savepoint', (told) => this.#tell(told));
        tracker.on('pending', (wanted) => {
            this.#pending = { ...wanted, chat: tracker.chat };
            this.#refresher.request(0);
        });
        tracker.on('operations', () => this.#refresher.request());
        tracker.on('chat', () => { this.#pending = null; });
    }

    /** @param {Told} told */
    #tell(told) {
        const { what, errors, warnings } = told;
        const lines = describe(told, this.tracker.chat);
        // The newest one is enough; one that failed stays until it is closed.
        for (const old of ['created', 'restored', 'branched']) this.notices.drop(`savepoint ${old}`);
        if (isOpen()) {
            const content = make('div', { class: 'vt-told-lines' }, ...lines.map((line) => make('div', {}, line)),
                ...errors.map((error) => make('div', { class: 'vt-problem' }, say('savepointError', { error }))),
                ...warnings.map((warning) => make('div', { class: 'vt-faint' }, say('savepointWarning', { warning }))));
            this.notices.show(`savepoint ${what}`, [content], false, true, errors.length || what === 'failed' ? 'error' : warnings.length ? 'warned' : 'moved');
            return;
        }
        const show = errors.length || what === 'failed' ? toastr.error : warnings.length ? toastr.warning : toastr.info;
        show.call(toastr, [...lines, ...errors, ...warnings].join(' '), say('checkpoints'), { escapeHtml: true });
    }

    /** Show the operations that are still running, until they have ended or the save point waits for them. */
    async #showPending() {
        const wanted = this.#pending;
        if (!wanted || wanted.chat !== this.tracker.chat) return;
        const active = await activeOperations(wanted.chat);
        if (wanted !== this.#pending) return;
        const count = active.reduce((sum, one) => sum + one.count, 0);
        const types = active.map(({ type, count: some, stages }) => `${type} ${some}${stages.length ? ` (${stages.join(', ')})` : ''}`).join(', ');
        const create = (/** @type {boolean} */ whenReady) => async () => {
            this.#pending = null;
            this.notices.drop('pending');
            await createSavepoint(this.tracker, wanted.message, wanted.name, whenReady)
                .catch((/** @type {Error} */ error) => this.tracker.emit('savepoint', { what: 'failed', name: wanted.name, errors: [error.message], warnings: [] }));
        };
        this.notices.show('pending', count
            ? [say(count === 1 ? 'pendingOne' : 'pendingNotice', { count, types }), textButton(say('createWhenReady'), create(true), { class: 'vt-when-ready' })]
            : [say('pendingOver'), textButton(say('checkpointCreate'), create(false), { class: 'vt-when-ready' })], false, true);
    }
}

/**
 * @param {Told} told
 * @param {any} chat
 * @returns {string[]}
 */
function describe({ what, name, createdAt, messageId, values, changed, bytes, versions = {}, lorebook }, chat) {
    const index = messageId ? chat?.messageIndex(messageId) ?? -1 : -1;
    const lines = [say(/** @type {any} */ (what === 'branched' && !name ? 'branchedAtMessage' : TITLES[what]), { name, time: createdAt ? moment(createdAt, true) : '' })];
    const facts = [
        index >= 0 ? say('checkpointAsOf', { index }) : '',
        changed === undefined ? '' : say('factChanged', { count: changed }),
        values === undefined ? '' : say(values === 1 ? 'factOneValue' : 'factValues', { count: values }),
        bytes === undefined ? '' : sizeOf(bytes),
        ...Object.entries(versions).map(([series, version]) => say('factVersion', { series, version: version ?? '–' })),
    ].filter(Boolean);
    if (facts.length) lines.push(facts.join(' · '));
    // Restoring copies nothing.
    if (lorebook && what === 'created') lines.push(say(lorebook.entries === 1 ? 'factOneEntry' : 'factLorebook', { name: lorebook.name, count: lorebook.entries }));
    return lines;
}

/** @param {number} bytes */
function sizeOf(bytes) {
    const { getCurrentLocale } = SillyTavern.getContext();
    const kilo = bytes >= 1000;
    return new Intl.NumberFormat(getCurrentLocale?.() ?? 'en', {
        style: 'unit', unit: kilo ? 'kilobyte' : 'byte', unitDisplay: kilo ? 'short' : 'long', maximumFractionDigits: 1,
    }).format(kilo ? bytes / 1000 : bytes);
}
