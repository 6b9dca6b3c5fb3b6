/**
 * The status of the connection, and notices for the player.
 */

import { make, textButton } from '../dom.js';
import { say } from '../strings.js';
import { Diagnosis, ailments, reasonOf } from '../values/diagnosis.js';
import { BY_PLAYER } from '../values/tracker.js';
import { bringBack } from './bin.js';
import { valueShown } from './valueshown.js';

/** How long a passing notice is shown. */
const NEWS_MS = 6000;
/** Notices that are not about one chat. */
const LASTING = new Set(['moved', 'versions', 'ailing']);
/** Notices that come before all others. */
const FIRST = new Set(['away', 'refused', 'stale']);
/** How often the reason is asked for while the server is away. */
const LOOK_MS = 5000;
/** How often a server that answers is asked if it is well. */
const AILING_MS = 600_000;

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
    /** The status whose reason was asked for. */
    #diagnosed = '';
    #diagnosis = new Diagnosis();
    /** How often the reason was asked for. */
    #asked = 0;
    /** @type {ReturnType<typeof setTimeout>|undefined} */
    #looking = undefined;
    /** The troubles that the server named when it was last asked, and the timer to ask it again. */
    #ailing = '';
    /** @type {any} */
    #asking = null;
    #reason = make('span', { class: 'vt-why' });

    /**
     * @param {import('../values/tracker.js').Tracker} tracker
     * @param {Element} element
     */
    constructor(tracker, element) {
        this.tracker = tracker;
        this.element = element;
        const showAway = () => this.#showAway();
        tracker.on('status', showAway);
        tracker.on('chat', () => {
            for (const kind of [...this.#shown.keys()]) if (!LASTING.has(kind)) this.drop(kind);
            showAway();
        });
        tracker.on('stale', (stale) => {
            if (stale) this.#stale();
            else this.drop('stale');
        });
        tracker.on('error', (error) => {
            const why = reasonOf(error);
            this.show('error', [why ? say(why) : say('errorNotice', { error: error.message })], !why, Boolean(why));
        });
        tracker.on('moved', () => this.show('moved', [say('movedNotice')], true));
        tracker.on('removed', (removed) => this.#removed(removed));
        tracker.on('conflict', (conflict) => this.#conflict(conflict));
    }

    /** Say that the server is away and why, or that something is wrong although it answers. */
    #showAway() {
        const { status, problem, vt } = this.tracker;
        if (status !== 'away') this.drop('away');
        if (status === 'closed' && problem) {
            const why = reasonOf(problem);
            const { message, hint } = /** @type {any} */ (problem);
            this.show('refused', [why ? say(why) : [message, hint].filter(Boolean).join(' '), this.#tryNow()]);
            return;
        }
        this.drop('refused');
        if (status === 'away') this.show('away', [say('awayNotice'), this.#reason, this.#tryNow()]);
        if (!vt || status === this.#diagnosed) return;
        this.#diagnosed = status;
        void this.#diagnose();
    }

    async #diagnose() {
        clearTimeout(this.#looking);
        const { vt, status } = this.tracker;
        this.#asked += 1;
        const asked = this.#asked;
        const why = await this.#diagnosis.ask(vt);
        // Only the newest answer counts: an earlier one may come late.
        if (status !== this.tracker.status || asked !== this.#asked) return;
        this.#reason.textContent = why ? say(why) : '';
        if (status === 'online') this.#showVersions(why);
        if (status === 'online') await this.#showAilments();
        // The plugin starts its server: it may soon have another reason.
        if (status === 'away') this.#looking = setTimeout(() => this.tracker.status === 'away' && this.#diagnose(), LOOK_MS);
    }

    /** Say calmly what the server is not well with, until the player closes it. */
    async #showAilments() {
        clearTimeout(this.#asking);
        const found = await ailments(this.tracker.vt).catch(() => []);
        // One that the player has closed comes back only if there is something new to say.
        if (found.join() !== this.#ailing) {
            this.#ailing = found.join();
            this.drop('ailing');
            if (found.length) this.show('ailing', found.map((name) => say(name)), false, true);
        }
        this.#asking = setTimeout(() => this.tracker.status === 'online' && this.#showAilments(), AILING_MS);
    }

    async #retry() {
        const { status } = this.tracker;
        await this.tracker.retry();
        // Another status is diagnosed by its event.
        if (status === this.tracker.status && this.tracker.vt) await this.#diagnose();
    }

    /** @param {import('../values/diagnosis.js').Why|null} why */
    #showVersions(why) {
        this.drop('versions');
        if (why === 'whyVersions') this.show('versions', [say(why), this.#tryNow()], false, true);
        if (why === 'whyUpdated') this.show('versions', [say(why), textButton(say('reloadPage'), () => location.reload())], false, true);
    }

    #tryNow() {
        return textButton(say('tryNow'), () => this.#retry(), { class: 'vt-retry' });
    }

    /** @param {{instanceId: string|null, key: string, before: any}} removed */
    #removed(removed) {
        const { instanceId, key } = removed;
        this.show('removed', [say('removedNotice', { key: this.tracker.reference(instanceId, key) }), textButton(say('undo'), () => {
            this.drop('removed');
            void bringBack(this.tracker, removed);
        }, { class: 'vt-undo' })], false, true);
    }

    #stale() {
        this.show('stale', [say('staleNotice'),
            textButton(say('reload'), () => SillyTavern.getContext().reloadCurrentChat(), { title: say('reloadTip') }),
            textButton(say('insist'), () => this.tracker.chat?.insist(), { title: say('insistTip') })]);
    }

    /** @param {{instanceId: string|null, key: string, mine: any, theirs: any, kept: string, use: (value: any, options: any) => any}} conflict */
    #conflict({ instanceId, key, mine, theirs, kept, use }) {
        const other = kept === 'mine' ? theirs : mine;
        const now = kept === 'mine' ? mine : theirs;
        const plain = (/** @type {any} */ value) => valueShown(value).textContent;
        const kind = `conflict ${JSON.stringify([instanceId, key])}`;
        this.show(kind, [
            say(kept === 'mine' ? 'conflictNotice' : 'conflictLost', { key: this.tracker.reference(instanceId, key), other: plain(other), now: plain(now) }),
            textButton(say('useOther', { value: plain(other) }), () => {
                this.drop(kind);
                use(other, BY_PLAYER);
            }),
        ], false, true);
    }

    /**
     * @param {string} kind
     * @param {Array<Node|string>} content
     * @param {boolean} [passing] disappears by itself
     * @param {boolean} [closable]
     * @param {string} [tone] the kind whose colour it has
     */
    show(kind, content, passing = false, closable = false, tone = kind.split(' ')[0]) {
        this.drop(kind);
        const notice = make('div', { class: `vt-notice vt-notice-${kind.split(' ')[0]} vt-notice-${tone}`, role: 'status' },
            ...content.map((part) => (typeof part === 'string' ? make('span', {}, part) : part)),
            closable ? textButton(say('close'), () => this.drop(kind)) : null);
        this.#shown.set(kind, notice);
        if (FIRST.has(kind)) this.element.prepend(notice);
        else this.element.append(notice);
        if (passing) setTimeout(() => notice === this.#shown.get(kind) && this.drop(kind), NEWS_MS);
    }

    /** @param {string} kind */
    drop(kind) {
        this.#shown.get(kind)?.remove();
        this.#shown.delete(kind);
    }
}
