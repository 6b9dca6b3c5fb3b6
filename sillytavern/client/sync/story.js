/**
 * Sends the server the chain of visible messages, so that values follow the story.
 */

import { ServerAwayError, ValueTrackerError } from '../errors.js';
import { chainOf, shared } from '../tavern/ids.js';
import { isGap } from './feed.js';
import { headersOf } from './transport.js';

const TRIES = 4;
/** Reasons after which SillyTavern saves the chat by itself. */
const SAVES_ITSELF = new Set(['message', 'swipe', 'generation', 'save']);

export class Story {
    /** The chain as last sent, with (`texts`) and without (`places`) the hashes of its texts. */
    #lastSent = { chain: /** @type {import('../tavern/ids.js').Link[]} */ ([]), places: '[]', texts: '[]' };
    /** True if a message was written to since: the server does not know the text that the write was made for. */
    #written = false;
    /** True if a swipe of a message is being generated. */
    open = false;
    /** True if another tab is ahead in this chat, and our chain would undo its changes. */
    #behind = false;
    /** The number of `insist` calls on this page that this story has handled. */
    #insisted = shared().insisted;

    /** @param {import('./session.js').Session} session */
    constructor(session) {
        this.session = session;
    }

    /**
     * Send the chain if it has changed; runs in the queue.
     *
     * @param {string} reason `save`: check before a write is sent
     * @param {{appends?: boolean}} [write] false: that write does not append its message to the chain
     * @returns {Promise<any>} the report, or null
     */
    async reconcile(reason, { appends = true } = {}) {
        const { session } = this;
        const { page, follow } = session.owner;
        if (!page || !follow || session.away || !session.isCurrent()) return null;
        const { chain, changed, open } = chainOf(page.messages);
        this.open = open;
        if (changed) page.noteNewIds();
        if (page.unsaved && !SAVES_ITSELF.has(reason)) page.saveSoon();
        const texts = JSON.stringify(chain);
        const places = JSON.stringify(chain.map(({ messageId, swipe }) => [messageId, swipe]));
        const differs = reason === 'save' ? places !== this.#lastSent.places : texts !== this.#lastSent.texts;
        // SillyTavern empties the chat before it loads it again. Only after a deletion is it really empty.
        const emptied = chain.length === 0 && reason !== 'delete' && reason !== 'load';
        if ((!differs && reason !== 'load' && reason !== 'insist') || emptied) return null;
        const before = this.#lastSent;
        this.#lastSent = { chain, places, texts };
        // The server appends the coming message by itself when it gets the write.
        if (reason === 'save' && appends && onlyAddsComingMessage(before.chain, chain) && !session.mirror.visibilityChanged) return null;
        // The server detects an edit by comparing hashes: send the text before the edit first.
        if (this.#written && places === before.places && reason !== 'load') await this.#post(before.chain);
        this.#written = false;
        const report = await this.sendChain(chain, reason);
        if (this.#behind) this.#lastSent = before;
        return report;
    }

    /** Check if this tab is behind after another client changed what is visible; runs in the queue. */
    async checkBehind() {
        const { session } = this;
        const { page, follow } = session.owner;
        if (!page || !follow || session.away || !session.isCurrent()) return;
        try {
            await this.#isBehind(chainOf(page.messages).chain);
        } catch (error) {
            // Checked again before a chain is sent.
            if (error instanceof ServerAwayError) session.markAway(error);
        }
    }

    /**
     * Make the messages of this page, or the given ones, the story, even if that undoes another tab; runs in the queue.
     *
     * @param {import('../tavern/ids.js').Link[]} [chain]
     */
    async insist(chain) {
        shared().insisted += 1;
        return await (chain ? this.sendChain(chain, 'insist') : this.reconcile('insist'));
    }

    /**
     * Return true if a message and its swipe are visible, as last sent.
     *
     * @param {import('../tavern/ids.js').Anchor} anchor
     */
    shows({ messageId, swipe }) {
        return this.#lastSent.chain.some((link) => link.messageId === messageId && link.swipe === swipe);
    }

    /** Record that a write was anchored to a message. */
    noteWrite() {
        this.#written = true;
    }

    /**
     * @param {import('../tavern/ids.js').Link[]} chain
     * @param {string} reason
     * @returns {Promise<any>} the report, or null
     */
    async sendChain(chain, reason) {
        const report = await this.#post(chain);
        if (report) this.session.owner.emit('reconciled', { reason, ...report });
        return report;
    }

    /** @param {import('../tavern/ids.js').Link[]} chain */
    async #post(chain) {
        const { session } = this;
        const { owner, mirror } = session;
        const insisting = shared().insisted !== this.#insisted;
        for (let tries = 1; ; tries++) {
            try {
                if (await this.#isBehind(chain)) return null;
                const { body } = await session.callInQueue('POST', '/reconcile', {
                    body: { anchors: chain }, headers: headersOf({ ifMatch: mirror.cursor }),
                });
                // `If-Match` guarantees that no change of this chat lies between.
                mirror.knownRevision = Math.max(mirror.knownRevision, body.revision);
                mirror.addOwnRevision(body.revision);
                mirror.applyReport(body);
                return body;
            } catch (error) {
                if (error instanceof ServerAwayError) {
                    session.markAway(error);
                    return null;
                }
                const outdated = error instanceof ValueTrackerError && error.code === 'revision_conflict';
                if (!outdated || tries === TRIES) {
                    owner.emit('error', error);
                    return null;
                }
                await this.catchUp();
                // An `insist` holds even if other changes arrived in the meantime.
                if (insisting) mirror.visibilityChanged = false;
            }
        }
    }

    /**
     * Return true if a chain would undo what another client made visible. That lasts until the other client
     * goes back, the chat is loaded again, or `insist` is called.
     *
     * @param {import('../tavern/ids.js').Link[]} chain
     */
    async #isBehind(chain) {
        const { session } = this;
        const { insisted } = shared();
        let behind = false;
        if (session.mirror.visibilityChanged && insisted === this.#insisted) {
            const { body } = await session.callInQueue('POST', '/reconcile', { body: { anchors: chain, dryRun: true } });
            behind = body.dormant > 0 || body.revived > 0;
        }
        this.#insisted = insisted;
        session.mirror.visibilityChanged = behind;
        if (behind !== this.#behind) session.owner.emit('stale', behind ? { reason: 'tab' } : null);
        this.#behind = behind;
        return behind;
    }

    /** Read the changes made elsewhere, without waiting for the feed. */
    async catchUp() {
        const { session } = this;
        const { transport } = session.owner;
        for (;;) {
            const query = { since: session.mirror.cursor, chatId: session.id, limit: 1000 };
            const answer = await transport.request('GET', '/changes', { query }).catch((/** @type {unknown} */ error) => {
                if (isGap(error)) return null;
                throw error;
            });
            // The server has restored a backup, or its log no longer reaches back that far.
            if (!answer) return await session.mirror.readAgain('remote', true);
            const { body } = answer;
            for (const event of body.items) await session.mirror.applyEvent(event);
            session.mirror.knownRevision = Math.max(session.mirror.knownRevision, Number.parseInt(body.next, 10));
            if (body.items.length === 0) return;
        }
    }
}

/**
 * Return true if a chain differs only by the coming message: the last one, which has no text yet.
 *
 * @param {import('../tavern/ids.js').Link[]} before
 * @param {import('../tavern/ids.js').Link[]} now
 */
function onlyAddsComingMessage(before, now) {
    return now.length === before.length + 1 && now.at(-1)?.hash === undefined
        && before.every(({ messageId, swipe }, index) => now[index].messageId === messageId && now[index].swipe === swipe);
}
