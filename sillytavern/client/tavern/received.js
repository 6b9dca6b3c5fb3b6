/**
 * Calls handlers with each message that is received, after its chat is loaded.
 *
 * SillyTavern sends the greetings of a new group before the chat they belong to, and a load may take
 * longer than SillyTavern waits: such messages are kept until the chat is loaded.
 */

import { StaleChatError } from '../errors.js';

/** @typedef {(index: number, type: string) => any} MessageHandler */

export class Received {
    /** @type {Set<MessageHandler>} */
    handlers = new Set();
    /** @type {Array<{message: any, type: string}>} */
    #early = [];

    /**
     * @param {import('./page.js').Page} page
     * @param {() => import('../sync/session.js').Session|null} loaded returns the open chat, once it is loaded
     */
    constructor(page, loaded) {
        this.page = page;
        this.loaded = loaded;
    }

    /**
     * @param {number} index
     * @param {string} type
     */
    note(index, type) {
        const message = this.page.messages[index];
        const session = this.loaded();
        if (!message || !this.handlers.size) return;
        if (!session?.isCurrent()) {
            this.#early.push({ message, type });
            return;
        }
        for (const handler of this.handlers) {
            try {
                const done = session.saver.withAnchor(session.anchorOf(index), () => handler(index, type));
                Promise.resolve(done).catch(report);
            } catch (error) {
                report(error);
            }
        }
    }

    /** The chat is loaded: the messages that came before are handled now. Those of another chat are not among them. */
    handleEarly() {
        const { messages } = this.page;
        for (const { message, type } of this.#early.splice(0)) {
            if (messages.includes(message)) this.note(messages.indexOf(message), type);
        }
    }
}

/** @param {unknown} error */
function report(error) {
    // The handler was still working on the chat that was open before.
    if (!(error instanceof StaleChatError)) console.error('[ValueTracker] A message handler failed.', error);
}
