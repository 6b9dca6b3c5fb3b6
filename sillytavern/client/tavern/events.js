/**
 * Listens to SillyTavern's events for the open chat.
 *
 * SillyTavern awaits its listeners: what is awaited here is done before the prompt is built. A limit
 * keeps a slow server from delaying SillyTavern for long.
 */

import { reserveAgain, shared } from './ids.js';

const LONGEST_DELAY_MS = 3_000;
/** How often to check a swipe that is being generated: SillyTavern removes a failed one without an event. */
const LOOK_MS = 400;
/** Generations that add no message. */
const SILENT = new Set(['quiet', 'impersonate', 'continue', 'append', 'appendFinal']);

export class Events {
    /** @type {Array<[string, (...args: any[]) => any]>} */
    #listeners = [];
    /** @type {ReturnType<typeof setTimeout>|null} */
    #timer = null;

    /**
     * @param {object} options
     * @param {import('./page.js').Page} options.page
     * @param {() => Promise<void>} options.load
     * @param {(index: number, type: string) => void} options.received
     * @param {(index: number) => void} options.changed called when a message was received or changed
     * @param {(file: string) => Promise<void>} options.deleted called with the name of a deleted file
     * @param {() => import('../sync/session.js').Session|null} options.session
     */
    constructor({ page, load, received, changed, deleted, session }) {
        this.page = page;
        this.session = session;
        const { eventSource, eventTypes = {}, event_types = eventTypes } = page.getContext();
        this.source = eventSource;
        const types = { ...event_types, ...eventTypes };
        /** @type {Record<string, (...args: any[]) => any>} */
        const handlers = {
            CHAT_CHANGED: () => within(load()),
            MESSAGE_SENT: () => this.#reconcile('message'),
            // The greetings of a new group come before its CHAT_CHANGED; they are not part of the chat that is open here.
            MESSAGE_RECEIVED: (index, type) => {
                received(Number(index), type);
                changed(Number(index));
                return this.#reconcile(type === 'swipe' ? 'swipe' : 'message');
            },
            MESSAGE_SWIPED: () => within(this.#reconcile('swipe')),
            MESSAGE_SWIPE_DELETED: () => within(this.#reconcile('swipe')),
            MESSAGE_DELETED: () => {
                // SillyTavern has removed the received message: a tool call first arrives as an empty message.
                reserveAgain(this.page.messages);
                return within(this.#reconcile('delete'));
            },
            CHAT_DELETED: (file) => void deleted(String(file)),
            GROUP_CHAT_DELETED: (file) => void deleted(String(file)),
            MESSAGE_EDITED: (index) => {
                changed(Number(index));
                return within(this.#reconcile('edit'));
            },
            MESSAGE_UPDATED: (index) => {
                changed(Number(index));
                return this.#reconcile('edit');
            },
            // Not before: until then an extension may remove the message about its calls.
            TOOL_CALLS_RENDERED: () => this.#reconcile('message'),
            GENERATION_AFTER_COMMANDS: (type, _, dryRun) => {
                if (dryRun) return undefined;
                const ready = within(this.#beforePrompt());
                // From here until it arrives, writes belong to the coming message.
                shared().generation = SILENT.has(type) ? null : { type: type ?? 'normal', received: false };
                return ready;
            },
            // Not awaited, so that every copy of the library reads the shared state before the next generation begins.
            GENERATION_ENDED: () => void this.#ended(),
            GENERATION_STOPPED: () => void this.#ended(),
        };
        for (const [name, handler] of Object.entries(handlers)) {
            if (!types[name]) continue;
            this.source.on(types[name], handler);
            this.#listeners.push([types[name], handler]);
        }
    }

    stop() {
        for (const [type, handler] of this.#listeners.splice(0)) this.source.removeListener(type, handler);
        if (this.#timer !== null) clearTimeout(this.#timer);
    }

    /** @param {string} reason */
    async #reconcile(reason) {
        const session = this.session();
        if (!session || !session.isCurrent()) return;
        session.saver.flush().catch(() => {});
        await session.run(() => session.story.reconcile(reason));
        this.#lookAgain(session);
    }

    /** Save all writes and send the chain, before the prompt is built. */
    async #beforePrompt() {
        const session = this.session();
        if (!session) return;
        await session.saver.flush().catch(() => {});
        await this.#reconcile('generation');
    }

    async #ended() {
        const page = shared();
        const { generation, reserved } = page;
        const session = this.session();
        // Give a message that has just arrived its ids first.
        if (session?.isCurrent()) await session.run(() => session.story.reconcile('generation'));
        // In a group the next generation may have begun by now.
        if (page.generation === generation) {
            page.generation = null;
            if (page.reserved === reserved) page.reserved = null;
        }
        await this.#reconcile('generation');
        // No message arrived, so SillyTavern does not save the chat.
        if (generation && !generation.received && this.page.unsaved) this.page.saveSoon();
    }

    /** @param {import('../sync/session.js').Session} session */
    #lookAgain(session) {
        if (!session.story.open || this.#timer !== null) return;
        this.#timer = setTimeout(() => {
            this.#timer = null;
            if (session === this.session()) this.#reconcile('swipe');
        }, LOOK_MS);
    }
}

/**
 * @param {Promise<any>} work
 */
async function within(work) {
    /** @type {ReturnType<typeof setTimeout>|undefined} */
    let timer;
    const enough = new Promise((resolve) => {
        timer = setTimeout(resolve, LONGEST_DELAY_MS);
    });
    await Promise.race([work.catch((error) => console.error('[ValueTracker]', error)), enough]);
    clearTimeout(timer);
}
