/**
 * The panel beside the chat. It draws what the tracker has, soon after something has changed and
 * only while it is open.
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

/** Changes of one moment are drawn once. */
const SOON_MS = 60;
const HISTORY_MS = 300;
/** As many as are seen at a glance need no search. */
const GLANCE = 12;
/** How often the values of another extension are read while they are shown. */
const LOOK_MS = 4000;
const TITLES = { swipe: 'lastSwipe', delete: 'lastDelete', reply: 'lastReply', regenerate: 'lastRegenerate', restore: 'lastRestore' };

export class Panel {
    #lines = new Lines();
    /** @type {ReturnType<typeof setTimeout>|null} */
    #drawing = null;
    /** @type {ReturnType<typeof setTimeout>|null} */
    #reading = null;
    /** @type {ReturnType<typeof setTimeout>|null} */
    #listing = null;
    /** The extension that is looked at; the empty one is this. */
    #whose = '';
    /** @type {string|null} */
    #drawnChat = null;
    /** Whose values, of which chat, the other rows are. */
    #seen = '';
    /** @type {ReturnType<typeof setTimeout>|undefined} */
    #looking = undefined;

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
        // SillyTavern listens for keys of its own: arrows swipe, Enter clicks once more.
        element.addEventListener('keydown', (event) => event.stopPropagation());
        this.whose.addEventListener('change', () => {
            this.#whose = this.whose.value;
            this.#drawSoon();
        });
        tracker.on('chat', () => this.#anew());
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
        tracker.on('status', () => this.#anew());
        tracker.on('moved', () => this.#anew());
        const { eventSource, eventTypes } = SillyTavern.getContext();
        // The open chat is no longer the one that is drawn.
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
        // The chat makes room for it.
        document.body.classList.toggle('vt-beside', isOpen());
        if (opened) this.#anew();
        else this.#drawSoon();
    }

    /** Another chat, or a server that is there again: everything is read anew. */
    #anew() {
        if (this.element.hidden) return;
        this.#drawSoon();
        this.#readSoon(0);
        this.#listSoon(0);
        if (this.tracker.status === 'online') this.#offerOthers().catch(calm);
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
            this.#draw().catch(calm);
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
                calm(error);
            }
            this.#drawSoon();
        }, after);
    }

    /** @param {number} [after] */
    #listSoon(after = HISTORY_MS) {
        if (this.element.hidden || this.#listing !== null) return;
        this.#listing = setTimeout(() => {
            this.#listing = null;
            this.checkpoints.load(this.tracker.chat).catch(calm);
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
            this.#tell('noChat');
        } else if (others) {
            const whose = this.#whose;
            const { data, instances } = await readOther(vt, whose, chat.id);
            if (whose !== this.#whose || chat !== this.tracker.chat) return;
            const seen = JSON.stringify([whose, chat.id]);
            if (seen !== this.#seen) this.others.clear();
            this.#seen = seen;
            this.others.update(groupsOf(data, instances));
            this.#search();
            // Nobody tells of what others write.
            clearTimeout(this.#looking);
            this.#looking = setTimeout(() => this.#drawSoon(), LOOK_MS);
        } else {
            const { data, instances } = chat.snapshot();
            this.values.update(groupsOf(data, instances));
            this.#search();
            this.#drawStep();
        }
    }

    /** Shows what is sought, and says why there is nothing. */
    #search() {
        const view = this.#whose ? this.others : this.values;
        view.search(this.search.value);
        this.search.hidden = view.count <= GLANCE && !this.search.value;
        const { chat } = this.tracker;
        // A server that was away from the beginning has never told what it has.
        if (chat?.away && chat.opened === null && !this.#whose) this.#tell('valuesAway');
        else if (view.found > 0) this.#tell(null);
        else if (view.count > 0) this.#tell('searchNone');
        else this.#tell(this.#whose ? 'noValuesOther' : 'noValues');
    }

    /** @param {'noChat'|'valuesAway'|'searchNone'|'noValuesOther'|'noValues'|null} what */
    #tell(what) {
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

/** The status tells; a chat that was left meanwhile is nobody's concern. @param {unknown} error */
function calm(error) {
    console.debug('[ValueTracker]', error);
}
