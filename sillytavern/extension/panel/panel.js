/**
 * The panel beside the chat. It draws the tracker's values shortly after each change, and only while
 * it is open.
 */

import { make } from '../dom.js';
import { isOpen, onSettings, setOpen } from '../settings.js';
import { fill, say } from '../strings.js';
import { otherExtensions, readOther } from '../values/others.js';
import { AddForm } from './addform.js';
import { CheckpointsView } from './checkpointsview.js';
import { differenceList } from './differences.js';
import { Lines } from './lines.js';
import { Notices, showStatus } from './status.js';
import { ValuesView, groupsOf } from './valuesview.js';

/** Changes within this time are drawn together. */
const SOON_MS = 60;
const HISTORY_MS = 300;
/** With at most this many values the search is hidden. */
const GLANCE = 12;
/** How often the values of another extension are read while they are shown. */
const POLL_MS = 4000;
const TITLES = { swipe: 'lastSwipe', delete: 'lastDelete', reply: 'lastReply', regenerate: 'lastRegenerate', restore: 'lastRestore' };

export class Panel {
    #lines = new Lines();
    /** @type {ReturnType<typeof setTimeout>|null} */
    #drawing = null;
    /** @type {ReturnType<typeof setTimeout>|null} */
    #reading = null;
    /** @type {ReturnType<typeof setTimeout>|null} */
    #listing = null;
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
        this.empty = part('vt-empty');
        this.own = part('vt-own');
        this.other = part('vt-other');
        this.whose = part('vt-whose');
        this.step = part('vt-step');
        const redraw = () => this.#drawSoon();
        this.values = new ValuesView({ tracker, lines: this.#lines, editable: true, redraw });
        this.add = new AddForm(tracker);
        part('vt-values').append(this.values.element, this.add.element);
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
            this.#drawSoon();
        });
        tracker.on('chat', () => this.#reload());
        tracker.on('change', () => {
            this.#drawSoon();
            this.#readSoon();
        });
        tracker.on('reconciled', () => {
            this.#drawSoon();
            this.#listSoon();
        });
        tracker.on('checkpoints', () => this.#listSoon());
        tracker.on('saved', () => this.#readSoon());
        tracker.on('status', () => this.#reload());
        tracker.on('moved', () => this.#reload());
        const { eventSource, eventTypes } = SillyTavern.getContext();
        // The panel still shows the chat that was open before.
        eventSource.on(eventTypes.CHAT_CHANGED, () => {
            this.checkpoints.clear();
            this.#drawSoon();
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
        else this.#drawSoon();
    }

    /** Read everything again, for another chat or after the server is back. */
    #reload() {
        if (this.element.hidden) return;
        this.#drawSoon();
        this.#readSoon(0);
        this.#listSoon(0);
        if (this.tracker.status === 'online') this.#offerOthers().catch(ignore);
    }

    async #offerOthers() {
        const ids = await otherExtensions(this.tracker.vt);
        this.whose.replaceChildren(make('option', { value: '' }, say('own')),
            ...ids.map((id) => make('option', { value: id }, say('readOnly', { extension: id }))));
        if (!ids.includes(this.#whose)) this.#whose = '';
        this.whose.value = this.#whose;
        this.whose.hidden = ids.length === 0;
    }

    #drawSoon() {
        if (this.element.hidden || this.#drawing !== null) return;
        this.#drawing = setTimeout(() => {
            this.#drawing = null;
            this.#draw().catch(ignore);
        }, SOON_MS);
    }

    /** @param {number} [after] */
    #readSoon(after = HISTORY_MS) {
        if (this.element.hidden || this.#reading !== null) return;
        this.#reading = setTimeout(async () => {
            this.#reading = null;
            const { chat } = this.tracker;
            try {
                await this.#lines.load(chat);
                if (chat && chat === this.tracker.chat) this.lastStep.recall(this.#lines.items);
            } catch (error) {
                ignore(error);
            }
            this.#drawSoon();
        }, after);
    }

    /** @param {number} [after] */
    #listSoon(after = HISTORY_MS) {
        if (this.element.hidden || this.#listing !== null) return;
        this.#listing = setTimeout(() => {
            this.#listing = null;
            this.checkpoints.load(this.tracker.chat).catch(ignore);
        }, after);
    }

    async #draw() {
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
            this.#polling = setTimeout(() => this.#drawSoon(), POLL_MS);
        } else {
            const { data, instances } = chat.snapshot();
            this.values.update(groupsOf(data, instances));
            this.#search();
            this.#drawStep();
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

/** Ignore a failure: the status shows that the server is away, or the chat is no longer open. @param {unknown} error */
function ignore(error) {
    console.debug('[ValueTracker]', error);
}
