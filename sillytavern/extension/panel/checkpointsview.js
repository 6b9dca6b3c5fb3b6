/**
 * Checkpoints of the open chat: create one as of a message, restore one after a preview, or start a
 * new chat from one.
 */

import { exactText } from '../client/valuetracker.js';
import { iconButton, make, moment, setChildren, textButton } from '../dom.js';
import { isNarrow, setOpen } from '../settings.js';
import { say } from '../strings.js';
import { createSavepoint, restoreSavepoint, tellWaited } from '../values/savepoints.js';
import { withKeys } from './editor.js';
import { Question } from './question.js';
import { Refresher } from './refresher.js';
import { RestorePreview } from './restorepreview.js';

const OFFERED_MESSAGES = 50;
/** The option that offers more messages. */
const EARLIER = 'earlier';
const LONGEST_EXCERPT = 40;
/** Changes within this time refresh the previews once. */
const SOON_MS = 200;
/** SillyTavern's events after which other messages, or other texts, are offered. */
const MESSAGE_EVENTS = ['MESSAGE_SENT', 'MESSAGE_RECEIVED', 'MESSAGE_SWIPED', 'MESSAGE_SWIPE_DELETED', 'MESSAGE_DELETED', 'MESSAGE_EDITED', 'GENERATION_ENDED'];
/** SillyTavern's module that creates branches. */
const BOOKMARKS = '/scripts/bookmarks.js';

export class CheckpointsView {
    /** @type {any} */
    #chat = null;
    #loads = 0;
    #picked = '';
    #offered = OFFERED_MESSAGES;
    /** The names of those that wait for operations. @type {Set<string>} */
    #waiting = new Set();
    /** By their visible content: an unchanged item keeps its preview. @type {Map<string, {element: any, preview: RestorePreview}>} */
    #items = new Map();
    /** @type {ReturnType<typeof setTimeout>|undefined} */
    #refreshing = undefined;

    /**
     * @param {import('../values/tracker.js').Tracker} tracker
     * @param {any} element
     */
    constructor(tracker, element) {
        this.tracker = tracker;
        this.name = make('input', { type: 'text', class: 'text_pole', placeholder: say('checkpointName'), 'aria-label': say('checkpointName'), maxlength: 200, autocomplete: 'off' });
        this.message = make('select', { class: 'text_pole', title: say('checkpointAt'), 'aria-label': say('checkpointAt'), onfocus: () => this.#offerMessages(), onchange: () => this.#pick() });
        this.problem = make('div', { class: 'vt-problem', role: 'alert', hidden: true });
        this.create = textButton(say('checkpointCreate'), () => this.#create(), { title: say('checkpointTip') });
        this.form = withKeys(make('div', { class: 'vt-checkpoint-form' }, this.name, make('div', { class: 'vt-pair' }, this.message, this.create)), () => this.#create(), () => {});
        this.list = make('div', { class: 'vt-checkpoints' });
        this.notice = make('div', { class: 'vt-faint' });
        element.append(this.form, this.problem, this.notice, this.list);
        tracker.on('change', () => {
            clearTimeout(this.#refreshing);
            this.#refreshing = setTimeout(() => {
                for (const { preview } of this.#items.values()) void preview.refresh();
            }, SOON_MS);
        });
        const { eventSource, eventTypes } = SillyTavern.getContext();
        const offering = new Refresher(() => this.#offerMessages(), SOON_MS);
        for (const name of MESSAGE_EVENTS) eventSource.on(eventTypes[name], () => offering.request());
        // Known before the list is read: the operations may have ended by then.
        tracker.on('waiting', (name) => this.#waiting.add(name));
        tracker.on('chat', (chat) => {
            if (chat?.begun?.differs) toastr.info(say('branchDiffers', { name: chat.begun.checkpoint }), say('checkpoints'), { escapeHtml: true });
        });
    }

    /** Remove all items, so that none of a chat that is being closed can be clicked. */
    clear() {
        this.#chat = null;
        this.#loads += 1;
        this.#items.clear();
        this.name.value = '';
        this.notice.textContent = '';
        this.#complain('');
        setChildren(this.list, []);
    }

    /** @param {any} chat the open one, or null */
    async load(chat) {
        if (chat !== this.#chat) {
            this.#picked = '';
            this.#offered = OFFERED_MESSAGES;
            this.#waiting.clear();
            this.#items.clear();
        }
        this.#chat = chat;
        this.#complain('');
        const away = !chat || chat.away;
        this.form.hidden = away;
        this.notice.textContent = chat?.away ? say('checkpointsAway') : '';
        this.#loads += 1;
        if (away) {
            setChildren(this.list, []);
            return;
        }
        this.#offerMessages();
        const load = this.#loads;
        const list = (await chat.checkpoints.list()).reverse();
        // A newer load has started.
        if (load !== this.#loads) return;
        this.notice.textContent = list.length ? '' : say('checkpointNone');
        setChildren(this.list, list.map((/** @type {any} */ one) => this.#item(one)));
        for (const one of list) {
            if (one.status === 'waiting') this.#waiting.add(one.name);
            else if (this.#waiting.has(one.name)) await tellWaited(this.tracker, chat, one);
            // One that could not be told is told with the next list.
            if (one.status !== 'waiting') this.#waiting.delete(one.name);
        }
    }

    #pick() {
        if (this.message.value !== EARLIER) {
            this.#picked = this.message.value;
            return;
        }
        this.#offered += OFFERED_MESSAGES * 4;
        this.#offerMessages();
        this.message.focus();
    }

    #offerMessages() {
        const { chat } = SillyTavern.getContext();
        /** @type {any[]} */
        const options = [];
        let index = chat.length - 1;
        for (; index >= 0 && options.length < this.#offered; index--) {
            const { name, mes, extra } = chat[index];
            // A line about calls of functions is no message to a player.
            if (!Array.isArray(extra?.tool_invocations)) options.push(make('option', { value: index }, say('checkpointMessage', { index, name, text: excerpt(mes) })));
        }
        if (index >= 0) options.push(make('option', { value: EARLIER }, say('earlierMessages', { count: index + 1 })));
        if (options.length) this.message.replaceChildren(...options);
        // The last message, unless the player has picked another one that still exists.
        this.message.value = this.#picked;
        if (this.message.selectedIndex < 0) {
            this.#picked = '';
            this.message.selectedIndex = 0;
        }
    }

    /** @param {string} problem */
    #complain(problem) {
        this.problem.textContent = problem;
        this.problem.hidden = !problem;
    }

    async #create() {
        const { value } = this.message;
        const name = this.name.value.trim();
        await this.#try(async () => {
            await createSavepoint(this.tracker, Number(value), name);
            this.name.value = '';
            this.#picked = '';
        });
    }

    /** @param {(chat: any) => Promise<unknown>} action */
    async #try(action) {
        const chat = this.#chat;
        try {
            await action(chat);
            for (const { preview } of this.#items.values()) preview.close();
            this.tracker.emit('checkpoints');
        } catch (error) {
            const { message, hint, code } = /** @type {any} */ (error);
            // A notice says which operations, and offers to wait for them.
            if (code !== 'operations_pending') this.#complain([message, hint].filter(Boolean).join(' '));
        }
    }

    /** @param {any} checkpoint */
    #item(checkpoint) {
        const index = checkpoint.messageId ? this.#chat.messageIndex(checkpoint.messageId) : -1;
        const shown = exactText([checkpoint, index]);
        const item = this.#items.get(shown) ?? this.#make(checkpoint, index);
        this.#items.set(shown, item);
        return item.element;
    }

    /**
     * @param {any} checkpoint
     * @param {number} index of its message
     */
    #make(checkpoint, index) {
        const { name, status, messageId, createdAt } = checkpoint;
        const ready = status === 'ready';
        const where = !ready ? say(status === 'failed' ? 'checkpointFailed' : 'checkpointWaiting')
            : !messageId ? '' : index < 0 ? say('checkpointMessageDeleted') : jumpButton(index);
        const preview = new RestorePreview({
            name, chat: this.#chat, tracker: this.tracker,
            restore: (force) => this.#try(() => restoreSavepoint(this.tracker, name, force)), complain: (problem) => this.#complain(problem),
        });
        const removal = new Question({
            icon: 'fa-trash-can', title: say('removeCheckpoint'), question: say('removeCheckpointSure', { name }), answer: say('remove'),
            act: () => this.#try((chat) => chat.checkpoints.remove(name)), name: 'vt-remove',
        });
        const element = make('div', { class: 'vt-checkpoint', 'data-name': name },
            make('div', { class: 'vt-checkpoint-head' },
                make('div', { class: 'vt-checkpoint-name' }, make('span', { title: name }, name),
                    make('small', { class: 'vt-faint' }, where, where ? ' · ' : '', moment(createdAt))),
                ready ? iconButton('fa-clock-rotate-left', say('restore'), () => preview.toggle(), 'vt-restore') : null,
                ready && index >= 0 ? iconButton('fa-code-branch', say('branchTip'), () => this.#branch(checkpoint), 'vt-branch') : null,
                removal.button),
            removal.asking, preview.element);
        return { element, preview };
    }

    /** @param {any} checkpoint */
    async #branch({ name, messageId, meta }) {
        const chat = this.#chat;
        const index = chat.messageIndex(messageId);
        if (index < 0) {
            this.#complain(say('branchNoMessage'));
            return;
        }
        const end = chat.branches.beginNextWith(name);
        try {
            await makeBranch(index, meta?.swipe ? chat.swipeIndex(index, meta.swipe) : -1);
        } finally {
            end();
        }
    }
}

/**
 * Let SillyTavern create the branch. Its last message shows the swipe of the checkpoint, if that still exists.
 *
 * @param {number} index
 * @param {number} swipe
 */
async function makeBranch(index, swipe) {
    const { chat, executeSlashCommandsWithOptions } = SillyTavern.getContext();
    const another = swipe >= 0 && swipe !== (chat[index].swipe_id ?? 0);
    // No slash command takes a swipe. Older versions of SillyTavern cannot choose one and show the current swipe.
    const { branchChat } = another ? await import(BOOKMARKS).catch(() => ({})) : {};
    if (branchChat) await branchChat(index, { swipeId: swipe });
    else await executeSlashCommandsWithOptions(`/branch-create ${index}`);
}

/**
 * Create a link to a message. SillyTavern counts messages in the same way.
 *
 * @param {number} index
 */
function jumpButton(index) {
    const jump = async () => {
        // On a phone the panel covers the chat.
        if (isNarrow()) setOpen(false);
        await SillyTavern.getContext().executeSlashCommandsWithOptions(`/chat-jump ${index}`);
    };
    return make('button', { type: 'button', class: 'vt-jump', title: say('jumpTip'), onclick: jump }, say('checkpointAsOf', { index }));
}

/** @param {string} text */
function excerpt(text) {
    // Messages about function calls are HTML: strip the tags. Text parsed this way is neither shown nor run.
    const { textContent } = new DOMParser().parseFromString(String(text ?? ''), 'text/html').body;
    const line = (textContent ?? '').replace(/\s+/g, ' ').trim();
    return line.length > LONGEST_EXCERPT ? `${line.slice(0, LONGEST_EXCERPT)}…` : line;
}
