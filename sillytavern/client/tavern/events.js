/**
 * SillyTavern's events, and what each means for the open chat.
 *
 * SillyTavern awaits its listeners: what is awaited here is done before the prompt is built. But
 * nobody may hold it up for long, whatever the server does.
 */

import { shared } from './ids.js';

const HOLD_UP_MS = 3_000;
/** How often a swipe that is being generated is looked at: one that fails is taken back without an event. */
const LOOK_MS = 400;
/** Generations that bring no message of their own. */
const SILENT = new Set(['quiet', 'impersonate', 'continue', 'append', 'appendFinal']);

export class Events {
    /** @type {Array<[string, (...args: any[]) => any]>} */
    #listeners = [];
    /** @type {ReturnType<typeof setTimeout>|null} */
    #looking = null;

    /**
     * @param {object} options
     * @param {import('./page.js').Page} options.page
     * @param {() => Promise<void>} options.load
     * @param {() => import('../sync/session.js').Session|null} options.session
     */
    constructor({ page, load, session }) {
        this.page = page;
        this.session = session;
        const { eventSource, eventTypes = {}, event_types = eventTypes } = page.getContext();
        this.source = eventSource;
        const types = { ...event_types, ...eventTypes };
        /** @type {Record<string, (...args: any[]) => any>} */
        const handlers = {
            CHAT_CHANGED: () => within(load()),
            MESSAGE_SENT: () => this.#tell('message'),
            // A new group's greetings come before its CHAT_CHANGED; they are not of the chat that is open here.
            MESSAGE_RECEIVED: (_, type) => this.#tell(type === 'swipe' ? 'swipe' : 'message'),
            MESSAGE_SWIPED: () => within(this.#tell('swipe')),
            MESSAGE_SWIPE_DELETED: () => within(this.#tell('swipe')),
            MESSAGE_DELETED: () => {
                const { generation } = shared();
                // What was received has been removed again: a tool call comes as an empty message first.
                if (generation) generation.received = false;
                return within(this.#tell('delete'));
            },
            MESSAGE_EDITED: () => within(this.#tell('edit')),
            MESSAGE_UPDATED: () => this.#tell('edit'),
            TOOL_CALLS_PERFORMED: () => this.#tell('message'),
            GENERATION_AFTER_COMMANDS: (type, _, dryRun) => {
                if (dryRun) return undefined;
                const told = within(this.#ready());
                // From here, until it is there, what is written belongs to the message that is coming.
                shared().generation = SILENT.has(type) ? null : { type: type ?? 'normal', received: false };
                return told;
            },
            // Not awaited, so that all copies of the library look before the next generation begins.
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
        if (this.#looking !== null) clearTimeout(this.#looking);
    }

    /** @param {string} reason */
    async #tell(reason) {
        const session = this.session();
        if (!session || !session.isCurrent()) return;
        session.saver.flush().catch(() => {});
        await session.run(() => session.story.follow(reason));
        this.#look(session);
    }

    /** Everything is saved and told: the prompt can be built. */
    async #ready() {
        const session = this.session();
        if (!session) return;
        await session.saver.flush().catch(() => {});
        await this.#tell('generation');
    }

    async #ended() {
        const page = shared();
        const { generation, reserved } = page;
        const session = this.session();
        // A message that has come in the meantime takes its ids first.
        if (session?.isCurrent()) await session.run(() => session.story.follow('generation'));
        // In a group the next one may have begun by now.
        if (page.generation === generation) {
            page.generation = null;
            if (page.reserved === reserved) page.reserved = null;
        }
        await this.#tell('generation');
        // Nothing came, so nothing is saved.
        if (generation && !generation.received && this.page.unsaved) this.page.saveSoon();
    }

    /** @param {import('../sync/session.js').Session} session */
    #look(session) {
        if (!session.story.open || this.#looking !== null) return;
        this.#looking = setTimeout(() => {
            this.#looking = null;
            if (session === this.session()) this.#tell('swipe');
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
        timer = setTimeout(resolve, HOLD_UP_MS);
    });
    await Promise.race([work.catch((error) => console.error('[ValueTracker]', error)), enough]);
    clearTimeout(timer);
}
