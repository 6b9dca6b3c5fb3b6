/**
 * The records of text that extensions inserted into messages. They are kept in the chat's metadata;
 * `extra` of the swipe has a copy, which other extensions may wipe.
 *
 *     inserts: [{extensionId, id, content, position, messageId, swipe, hash}]
 *
 * If all ids of a message are wiped, its records are found by the hash of its text.
 */

import { hasMessage, hashText, identify, insertsOf, setInserts } from './ids.js';
import { withoutInserts } from './markers.js';

/** @typedef {{extensionId: string, id: string, content: string, position: import('./markers.js').Position}} Insert */
/** @typedef {Insert & {messageId: string, swipe: string, hash: string}} Kept */

/** Records of messages that are not in the chat: deleted ones, or wiped ones. */
const MOST_LOST = 50;

export class InsertList {
    /**
     * @param {string} extensionId
     * @param {() => {inserts?: any}} kept returns the library's part of the chat's metadata
     */
    constructor(extensionId, kept) {
        this.extensionId = extensionId;
        this.kept = kept;
    }

    /** @returns {Kept[]} the records of all extensions */
    get #all() {
        const { inserts } = this.kept();
        return Array.isArray(inserts) ? inserts : [];
    }

    /** @param {Kept[]} all */
    #set(all) {
        const kept = this.kept();
        // A chat without inserts has no list.
        if (all.length) kept.inserts = all;
        else delete kept.inserts;
    }

    /**
     * Return this extension's inserts of the visible swipe of a message.
     *
     * @param {import('./ids.js').Message[]} messages
     * @param {import('./ids.js').Message} message
     * @returns {Kept[]}
     */
    of(messages, message) {
        const { messageId, swipe } = identify(message, { last: message === messages.at(-1) });
        if (swipe === null) return [];
        const here = () => this.#all.filter((one) => one.extensionId === this.extensionId && one.messageId === messageId && one.swipe === swipe);
        const hash = hashText(withoutInserts(message.mes ?? ''));
        if (!here().length) {
            for (const one of this.#all) {
                if (one.extensionId === this.extensionId && one.hash === hash && !hasMessage(messages, one.messageId)) Object.assign(one, { messageId, swipe });
            }
        }
        // The metadata is older than the message, for example that of a file that was edited.
        if (!here().length) {
            const copies = insertsOf(message).filter((one) => one.extensionId === this.extensionId);
            this.#set([...this.#all, ...copies.map((copy) => ({ ...copy, messageId, swipe, hash }))]);
        }
        return here();
    }

    /**
     * Record an insert. The text of the message has it already.
     *
     * @param {import('./ids.js').Message[]} messages
     * @param {import('./ids.js').Message} message
     * @param {Insert} [insert] missing: only the text has changed
     */
    keep(messages, message, insert) {
        const { messageId, swipe } = identify(message, { last: message === messages.at(-1) });
        if (swipe === null) return;
        const hash = hashText(withoutInserts(message.mes ?? ''));
        const isHere = (/** @type {Kept} */ one) => one.messageId === messageId && one.swipe === swipe;
        const all = this.#all.filter((one) => !(insert && isHere(one) && one.extensionId === insert.extensionId && one.id === insert.id));
        if (insert) all.push({ ...insert, messageId, swipe, hash });
        for (const one of all) if (isHere(one)) one.hash = hash;
        const lost = all.filter((one) => !hasMessage(messages, one.messageId)).slice(0, -MOST_LOST);
        this.#set(all.filter((one) => !lost.includes(one)));
        setInserts(message, all.filter(isHere).map(({ extensionId, id, content, position }) => ({ extensionId, id, content, position })));
    }
}
