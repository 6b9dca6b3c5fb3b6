/**
 * The panel beside the chat. It draws the tracker's values shortly after each change, and only while
 * it is open.
 */

import { make } from '../dom.js';
import { isOpen, onSettings, setOpen } from '../settings.js';
import { fill, say } from '../strings.js';
import { otherExtensions, readOther } from '../values/others.js';
import { AddForm } from './addform.js';
import { Bin } from './bin.js';
import { CheckpointsView } from './checkpointsview.js';
import { differenceList } from './differences.js';
import { Lines } from './lines.js';
import { Refresher } from './refresher.js';
import { SaveNotices } from './savenotices.js';
import { Notices, showStatus } from './status.js';
import { ValuesView, groupsOf } from './valuesview.js';

/** Changes within this time are drawn together. */
const SOON_MS = 60;
const HISTORY_MS = 300;
/** With at most this many values the search is hidden. */
const GLANCE = 12;
/** How often the values of another extension are read while they are shown. */
const POLL_MS = 4000;
const TITLES = { swipe: 'lastSwipe', delete: 'lastDelete', reply: 'lastReply', round: 'lastRound', regenerate: 'lastRegenerate', restore: 'lastRestore' };

export class Panel {
    #lines = new Lines();
    #drawing = new Refresher(() => this.#draw(), SOON_MS);
    #reading = new Refresher(() => this.#read(), HISTORY_MS);
    #listing = new Refresher(() => this.#list(), HISTORY_MS);
    #offering = new Refresher(() => this.#offerOthers(), 0);
    /** The extension whose values are shown; empty: this one. */
    #whose = '';
    /** @type {string|null} */
    #drawnChat = null;
    /** The extension and chat of the rows in `others`. */
    #shownOther = '';
    /** @type {ReturnType<typeof setTimeout>|undefined} */
    #polling = undefined;

    /**
     * @param {import('../values/tracker.js').Tracker} tracker
     * @param {import('../values/laststep.js').LastStep} lastStep
     * @param {Element} element the template
     */
    constructor(tracker, lastStep, element) {
        this.tracker = tracker;
        this.lastStep = lastStep;
        this.element = /** @type {HTMLElement} */ (element);
        fill(element);
        const part = (/** @type {string} */ name) => /** @type {any} */ (element.querySelector(`.${name}`));
        showStatus(tracker, part('vt-status'));
        this.notices = new Notices(tracker, part('vt-notices'));
        new SaveNotices(tracker, this.notices);
        this.empty = part('vt-empty');
        this.own = part('vt-own');
        this.other = part('vt-other');
        this.whose = part('vt-whose');
        this.step = part('vt-step');
        const redraw = () => this.#drawing.request();
        this.values = new ValuesView({ tracker, lines: this.#lines, editable: true, redraw });
        this.add = new AddForm(tracker);
        this.bin = new Bin(tracker, this.#lines);
        part('vt-values').append(this.values.element, this.add.element);
        this.step.after(this.bin.element);
        this.others = new ValuesView({ tracker, lines: null, editable: false, redraw });
        this.other.append(this.others.element);
        this.checkpoints = new CheckpointsView(tracker, part('vt-checkpoints-section'));
        part('vt-close').addEventListener('click', () => setOpen(false));
        this.search = part('vt-search');
        this.search.addEventListener('input', () => this.#search());
        // SillyTavern has its own keys: arrows swipe, Enter clicks again.
        element.addEventListener('keydown', (event) => event.stopPropagation());
        this.whose.addEventListener('change', () => {
            this.#whose = this.whose.value;
            redraw();
        });
        tracker.on('chat', () => this.#reload());
        tracker.on('step', redraw);
        tracker.on('change', () => {
            redraw();
            this.#reading.request();
        });
        tracker.on('reconciled', () => {
            redraw();
            this.#listing.request();
            // Changes of a hidden message are undone, even if no value is another one now.
            this.#reading.request();
        });
        tracker.on('checkpoints', () => this.#listing.request());
        tracker.on('saved', () => this.#reading.request());
        tracker.on('status', () => this.#reload());
        tracker.on('moved', () => this.#reload());
        const { eventSource, eventTypes } = SillyTavern.getContext();
        // The panel still shows the chat that was open before.
        eventSource.on(eventTypes.CHAT_CHANGED, () => {
            this.checkpoints.clear();
            redraw();
        });
        onSettings(() => this.#show());
        this.#show();
    }

    #show() {
        const opened = this.element.hidden && isOpen();
        this.element.hidden = !isOpen();
        // The style moves the chat aside.
        document.body.classList.toggle('vt-beside', isOpen());
        if (opened) this.#reload();
        else this.#drawing.request();
    }

    /** Read everything again, for another chat or after the server is back. */
    #reload() {
        this.#drawing.request();
        this.#reading.request(0);
        this.#listing.request(0);
        this.#offering.request();
    }

    async #offerOthers() {
        if (this.element.hidden || this.tracker.status !== 'online') return;
        const ids = await otherExtensions(this.tracker.vt);
        this.whose.replaceChildren(make('option', { value: '' }, say('own')),
            ...ids.map((id) => make('option', { value: id }, say('readOnly', { extension: id }))));
        if (!ids.includes(this.#whose)) this.#whose = '';
        this.whose.value = this.#whose;
        this.whose.hidden = ids.length === 0;
    }

    /** Read the history of the open chat. */
    async #read() {
        if (this.element.hidden) return;
        const { chat } = this.tracker;
        await this.#lines.load(chat, () => chat === this.tracker.chat);
        if (chat && chat === this.tracker.chat) this.lastStep.recall(this.#lines.items);
        this.#drawing.request();
    }

    async #list() {
        if (!this.element.hidden) await this.checkpoints.load(this.tracker.chat);
    }

    async #draw() {
        if (this.element.hidden) return;
        const { chat, vt } = this.tracker;
        if (this.#drawnChat !== (chat?.id ?? null)) {
            this.#drawnChat = chat?.id ?? null;
            this.values.clear();
            this.add.close();
            this.search.value = '';
            this.values.search('');
        }
        const others = Boolean(chat && this.#whose);
        this.own.hidden = !chat || others;
        this.other.hidden = !others;
        if (!chat) {
            this.search.hidden = true;
            this.#showEmpty('noChat');
        } else if (others) {
            const whose = this.#whose;
            const { data, instances } = await readOther(vt, whose, chat.id);
            if (whose !== this.#whose || chat !== this.tracker.chat) return;
            const seen = JSON.stringify([whose, chat.id]);
            if (seen !== this.#shownOther) this.others.clear();
            this.#shownOther = seen;
            this.others.update(groupsOf(data, instances));
            this.#search();
            // There is no event for other extensions' writes: poll.
            clearTimeout(this.#polling);
            this.#polling = setTimeout(() => this.#drawing.request(), POLL_MS);
        } else {
            const { data, instances } = chat.snapshot();
            this.values.update(groupsOf(data, instances));
            this.#search();
            this.#drawStep();
            this.bin.draw();
        }
    }

    /** Apply the search, and say why the list is empty. */
    #search() {
        const view = this.#whose ? this.others : this.values;
        view.search(this.search.value);
        this.search.hidden = view.count <= GLANCE && !this.search.value;
        const { chat } = this.tracker;
        // The server was away from the start: its values are not known.
        if (chat?.away && chat.opened === null && !this.#whose) this.#showEmpty('valuesAway');
        else if (view.found > 0) this.#showEmpty(null);
        else if (view.count > 0) this.#showEmpty('searchNone');
        else this.#showEmpty(this.#whose ? 'noValuesOther' : 'noValues');
    }

    /** @param {'noChat'|'valuesAway'|'searchNone'|'noValuesOther'|'noValues'|null} what */
    #showEmpty(what) {
        this.empty.textContent = what ? say(what) : '';
        this.empty.hidden = !what;
    }

    #drawStep() {
        const { step } = this.lastStep;
        this.step.hidden = !step;
        if (!step) return;
        this.step.querySelector('.vt-step-title').textContent = say(/** @type {any} */ (TITLES[step]));
        const differences = this.lastStep.differences
            .map(({ instanceId, key, before, after }) => ({ title: this.tracker.reference(instanceId, key), before, after }))
            .sort((one, other) => one.title.localeCompare(other.title));
        this.step.querySelector('.vt-step-list').replaceChildren(differences.length
            ? differenceList(differences)
            : make('div', { class: 'vt-faint' }, say('changedNothing')));
    }
}
