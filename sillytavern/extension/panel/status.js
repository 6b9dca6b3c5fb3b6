/**
 * The status of the connection, and notices for the player.
 */

import { make, textButton } from '../dom.js';
import { say } from '../strings.js';
import { BY_PLAYER } from '../values/tracker.js';
import { valueShown } from './valueshown.js';

/** How long a passing notice is shown. */
const NEWS_MS = 6000;

/**
 * @param {import('../values/tracker.js').Tracker} tracker
 * @param {Element} element with a dot and a text
 */
export function showStatus(tracker, element) {
    const text = /** @type {Element} */ (element.querySelector('.vt-status-text'));
    const update = () => {
        const { status, problem } = tracker;
        element.setAttribute('data-status', status);
        text.textContent = status === 'closed' ? say('refused', { error: problem?.message ?? '' }) : say(status === 'connecting' ? 'connecting' : status);
    };
    tracker.on('status', update);
    update();
}

/** Notices above the values: one of each kind; conflicts: one for each value. */
export class Notices {
    /** @type {Map<string, any>} */
    #shown = new Map();

    /**
     * @param {import('../values/tracker.js').Tracker} tracker
     * @param {Element} element
     */
    constructor(tracker, element) {
        this.tracker = tracker;
        this.element = element;
        const showAway = () => {
            if (tracker.status === 'away') this.#show('away', [say('awayNotice')]);
            else this.#drop('away');
        };
        tracker.on('status', showAway);
        tracker.on('chat', () => {
            for (const kind of [...this.#shown.keys()]) if (kind !== 'moved') this.#drop(kind);
            showAway();
        });
        tracker.on('stale', (stale) => {
            if (stale) this.#stale();
            else this.#drop('stale');
        });
        tracker.on('error', (error) => this.#show('error', [say('errorNotice', { error: error.message })], true));
        tracker.on('moved', () => this.#show('moved', [say('movedNotice')], true));
        tracker.on('conflict', (conflict) => this.#conflict(conflict));
    }

    #stale() {
        this.#show('stale', [say('staleNotice'),
            textButton(say('reload'), () => SillyTavern.getContext().reloadCurrentChat(), { title: say('reloadTip') }),
            textButton(say('insist'), () => this.tracker.chat?.insist(), { title: say('insistTip') })]);
    }

    /** @param {{instanceId: string|null, key: string, mine: any, theirs: any, kept: string, use: (value: any, options: any) => any}} conflict */
    #conflict({ instanceId, key, mine, theirs, kept, use }) {
        const other = kept === 'mine' ? theirs : mine;
        const now = kept === 'mine' ? mine : theirs;
        const plain = (/** @type {any} */ value) => valueShown(value).textContent;
        const kind = `conflict ${JSON.stringify([instanceId, key])}`;
        this.#show(kind, [
            say(kept === 'mine' ? 'conflictNotice' : 'conflictLost', { key: this.tracker.reference(instanceId, key), other: plain(other), now: plain(now) }),
            textButton(say('useOther', { value: plain(other) }), () => {
                this.#drop(kind);
                use(other, BY_PLAYER);
            }),
        ], false, true);
    }

    /**
     * @param {string} kind
     * @param {Array<Node|string>} content
     * @param {boolean} [passing] disappears by itself
     * @param {boolean} [closable]
     */
    #show(kind, content, passing = false, closable = false) {
        this.#drop(kind);
        const notice = make('div', { class: `vt-notice vt-notice-${kind.split(' ')[0]}`, role: 'status' },
            ...content.map((part) => (typeof part === 'string' ? make('span', {}, part) : part)),
            closable ? textButton(say('close'), () => this.#drop(kind)) : null);
        this.#shown.set(kind, notice);
        this.element.append(notice);
        if (passing) setTimeout(() => notice === this.#shown.get(kind) && this.#drop(kind), NEWS_MS);
    }

    /** @param {string} kind */
    #drop(kind) {
        this.#shown.get(kind)?.remove();
        this.#shown.delete(kind);
    }
}
