/**
 * Tells the server which messages are visible, so that values follow the story.
 */

import { ServerAwayError, ValueTrackerError } from '../errors.js';
import { chainOf, shared } from '../tavern/ids.js';
import { headersOf } from './transport.js';

const TRIES = 4;
/** What SillyTavern saves the chat after. */
const SAVES_ITSELF = new Set(['message', 'swipe', 'generation', 'save']);

export class Story {
    /** The chain as last told, with and without the hashes of its texts. */
    #told = { chain: /** @type {import('../tavern/ids.js').Link[]} */ ([]), places: '[]', texts: '[]' };
    /** Whether something was written to a message since: the server does not know the text it was written for. */
    #written = false;
    /** Whether a message was left out since a swipe of it is being generated. */
    open = false;
    /** Whether another tab has gone on in this chat, and our chain would take that back. */
    #behind = false;
    /** How often somebody has said that this page is right, as far as we know. */
    #insisted = shared().insisted;

    /** @param {import('./session.js').Session} session */
    constructor(session) {
        this.session = session;
    }

    /**
     * Tells the chain if it is another than before; in the lane.
     *
     * @param {string} reason `save`: just to be sure, before something is saved
     * @returns {Promise<any>} the report, or null
     */
    async follow(reason) {
        const { session } = this;
        const { page, follow } = session.owner;
        if (!page || !follow || session.away || !session.isCurrent()) return null;
        const { chain, changed, open } = chainOf(page.messages);
        this.open = open;
        if (changed) page.changed();
        if (page.unsaved && !SAVES_ITSELF.has(reason)) page.saveSoon();
        const texts = JSON.stringify(chain);
        const places = JSON.stringify(chain.map(({ messageId, swipe }) => [messageId, swipe]));
        const differs = reason === 'save' ? places !== this.#told.places : texts !== this.#told.texts;
        // SillyTavern empties the chat before it loads it anew; only a deletion means it.
        const emptied = chain.length === 0 && reason !== 'delete' && reason !== 'load';
        if ((!differs && reason !== 'load' && reason !== 'insist') || emptied) return null;
        const before = this.#told;
        this.#told = { chain, places, texts };
        // The write that is about to be sent appends the coming message by itself.
        if (reason === 'save' && onlyComes(before.chain, chain) && !session.mirror.moved) return null;
        // An edit can only be told from the text before it.
        if (this.#written && places === before.places && reason !== 'load') await this.#send(before.chain);
        this.#written = false;
        const report = await this.tell(chain, reason);
        if (this.#behind) this.#told = before;
        return report;
    }

    /** Somebody else has changed what is visible: whether this tab has fallen behind; in the lane. */
    async look() {
        const { session } = this;
        const { page, follow } = session.owner;
        if (!page || !follow || session.away || !session.isCurrent()) return;
        try {
            await this.#fallsBehind(chainOf(page.messages).chain);
        } catch (error) {
            // It is looked at again before a chain is sent.
            if (error instanceof ServerAwayError) session.lose(error);
        }
    }

    /**
     * The messages of this page, or these, are the story, whatever another tab has made of it; in the lane.
     *
     * @param {import('../tavern/ids.js').Link[]} [chain]
     */
    async insist(chain) {
        shared().insisted += 1;
        return await (chain ? this.tell(chain, 'insist') : this.follow('insist'));
    }

    /** Something was written to a message. */
    written() {
        this.#written = true;
    }

    /**
     * @param {import('../tavern/ids.js').Link[]} chain
     * @param {string} reason
     * @returns {Promise<any>} the report, or null
     */
    async tell(chain, reason) {
        const report = await this.#send(chain);
        if (report) this.session.owner.emit('reconciled', { reason, ...report });
        return report;
    }

    /** @param {import('../tavern/ids.js').Link[]} chain */
    async #send(chain) {
        const { session } = this;
        const { owner, mirror } = session;
        const insisting = shared().insisted !== this.#insisted;
        for (let tries = 1; ; tries++) {
            try {
                if (await this.#fallsBehind(chain)) return null;
                const { body } = await session.callInLane('POST', '/reconcile', {
                    body: { anchors: chain }, headers: headersOf({ ifMatch: mirror.seen }),
                });
                // `If-Match` says that nothing in this chat lies between.
                mirror.seen = Math.max(mirror.seen, body.revision);
                mirror.mine(body.revision);
                mirror.reconciled(body);
                return body;
            } catch (error) {
                if (error instanceof ServerAwayError) {
                    session.lose(error);
                    return null;
                }
                const moved = error instanceof ValueTrackerError && error.code === 'revision_conflict';
                if (!moved || tries === TRIES) {
                    owner.emit('error', error);
                    return null;
                }
                await this.catchUp();
                // What somebody insists on stands, whatever has come up on the way.
                if (insisting) mirror.moved = false;
            }
        }
    }

    /**
     * Whether a chain would undo what somebody else has made visible. It stays so until that is no longer
     * there, the chat is loaded anew, or somebody insists.
     *
     * @param {import('../tavern/ids.js').Link[]} chain
     */
    async #fallsBehind(chain) {
        const { session } = this;
        const { insisted } = shared();
        let behind = false;
        if (session.mirror.moved && insisted === this.#insisted) {
            const { body } = await session.callInLane('POST', '/reconcile', { body: { anchors: chain, dryRun: true } });
            behind = body.dormant > 0 || body.revived > 0;
        }
        this.#insisted = insisted;
        session.mirror.moved = behind;
        if (behind !== this.#behind) session.owner.emit('stale', behind ? { reason: 'tab' } : null);
        this.#behind = behind;
        return behind;
    }

    /** Learns what was changed elsewhere, without waiting for the feed. */
    async catchUp() {
        const { session } = this;
        const { transport } = session.owner;
        for (;;) {
            const since = session.mirror.seen;
            const { body } = await transport.request('GET', '/changes', { query: { since, chatId: session.id, limit: 1000 } });
            for (const event of body.items) await session.mirror.learn(event);
            session.mirror.seen = Math.max(session.mirror.seen, body.next);
            if (body.items.length === 0) return;
        }
    }
}

/**
 * Whether all that is new in a chain is the message that is coming: it stands at the end, and has no text yet.
 *
 * @param {import('../tavern/ids.js').Link[]} before
 * @param {import('../tavern/ids.js').Link[]} now
 */
function onlyComes(before, now) {
    return now.length === before.length + 1 && now.at(-1)?.hash === undefined
        && before.every(({ messageId, swipe }, index) => now[index].messageId === messageId && now[index].swipe === swipe);
}
