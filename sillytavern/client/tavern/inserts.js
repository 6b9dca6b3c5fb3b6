/**
 * Inserts text into messages: once, verified, and restored if another extension removes it.
 *
 * Other extensions may rewrite the same message at the same time. So the content stands between
 * markers, and insertlist.js lists all inserts.
 */

import { StaleChatError, ValueTrackerError } from '../errors.js';
import { shared } from './ids.js';
import { END, changePercent, insertAt, markerOf, withoutInserts } from './markers.js';
import { InsertList } from './insertlist.js';

/** @typedef {import('./ids.js').Message} Message */
/** @typedef {import('./markers.js').Position} Position */
/**
 * @typedef {object} Insertion
 * @property {boolean} inserted
 * @property {boolean} already it was inserted before
 * @property {boolean} restored another extension removed it at once, and it was inserted again
 * @property {boolean} modified the text differs from `originalText`
 * @property {number} changePercent
 * @property {string[]} warnings
 */

export class Inserts {
    /**
     * @param {object} options
     * @param {string} options.extensionId
     * @param {string} options.chatId
     * @param {number} options.delayMs
     * @param {() => any} options.context returns SillyTavern's context; throws if the chat is no longer open
     * @param {() => any} options.kept returns the library's part of the chat's metadata
     */
    constructor({ extensionId, chatId, delayMs, context, kept }) {
        this.extensionId = extensionId;
        this.chatId = chatId;
        this.delayMs = delayMs;
        this.context = context;
        this.list = new InsertList(extensionId, kept);
    }

    /**
     * @param {number} index
     * @param {string} id
     */
    hasMarker(index, id) {
        return (this.#message(index).mes ?? '').includes(markerOf(this.extensionId, id));
    }

    /**
     * @param {number} index
     * @param {{id: string, content: string, position?: Position, originalText?: string}} what
     * @returns {Promise<Insertion>}
     */
    async insertOnce(index, { id, content, position = 'end', originalText }) {
        const message = this.#message(index);
        const swipe = message.swipe_id;
        const before = originalText ?? message.mes ?? '';
        // Most other extensions change a message as soon as it arrives: let them go first.
        await new Promise((resolve) => setTimeout(resolve, this.delayMs));

        const marker = markerOf(this.extensionId, id);
        const here = this.context().chat.indexOf(message);
        if (here < 0) throw new StaleChatError(this.chatId);
        /** @type {Insertion} */
        const report = { inserted: false, already: false, restored: false, modified: false, changePercent: 0, warnings: [] };
        if (message.swipe_id !== swipe) {
            report.warnings.push('The message shows another swipe now.');
            return report;
        }
        const now = message.mes ?? '';
        if (now.includes(marker)) return { ...report, already: true };
        if (withoutInserts(now) !== withoutInserts(before)) {
            report.modified = true;
            report.changePercent = changePercent(withoutInserts(before), withoutInserts(now));
            report.warnings.push(`${report.changePercent}% of the message changed before the insertion.`);
        }
        const { text, found } = insertAt(now, `${marker}${content}${END}`, position);
        if (!found) report.warnings.push('The position was not found; the content was added at the end.');
        message.mes = text;
        this.list.keep(this.context().chat, message, { extensionId: this.extensionId, id, content, position });
        await this.#write(here, message, text);
        report.inserted = true;
        if (!(message.mes ?? '').includes(marker)) {
            const { restoredCount } = await this.reconcileMessage(this.context().chat.indexOf(message));
            report.restored = restoredCount > 0;
            report.inserted = report.restored;
        }
        for (const warning of report.warnings) console.warn(`[ValueTracker] Message ${here}: ${warning}`);
        return report;
    }

    /**
     * Insert again what is missing from a message.
     *
     * @param {number} index
     * @returns {Promise<{missingCount: number, restoredCount: number, errors: string[]}>}
     */
    async reconcileMessage(index) {
        const message = this.#message(index);
        const { chat } = this.context();
        const missing = this.list.of(chat, message).filter((insert) => !(message.mes ?? '').includes(markerOf(insert.extensionId, insert.id)));
        this.list.keep(chat, message);
        /** @type {string[]} */
        const errors = [];
        let text = message.mes ?? '';
        for (const { extensionId, id, content, position } of missing) {
            // The text to replace is missing if an earlier insertion replaced it; the content then goes to the end.
            text = insertAt(text, `${markerOf(extensionId, id)}${content}${END}`, position).text;
        }
        if (missing.length === 0) return { missingCount: 0, restoredCount: 0, errors };
        try {
            await this.#write(index, message, text);
        } catch (error) {
            errors.push(error instanceof Error ? error.message : String(error));
        }
        const restored = missing.filter(({ extensionId, id }) => (message.mes ?? '').includes(markerOf(extensionId, id)));
        for (const { id } of missing.filter((insert) => !restored.includes(insert))) errors.push(`${id} could not be restored.`);
        return { missingCount: missing.length, restoredCount: restored.length, errors };
    }

    /**
     * Insert again what is missing from a message that was received or changed, after other extensions have changed it.
     *
     * @param {number} index
     */
    async reconcileLater(index) {
        const message = this.context().chat[index];
        const { length } = message ? this.list.of(this.context().chat, message) : [];
        if (!length) return;
        await new Promise((resolve) => setTimeout(resolve, this.delayMs));
        const { chat } = this.context();
        const here = chat.indexOf(message);
        // A message that is being generated is received at the end.
        if (here < 0 || (shared().generation && here === chat.length - 1)) return;
        await this.reconcileMessage(here);
    }

    /**
     * @param {number} index
     * @returns {Message}
     */
    #message(index) {
        const message = this.context().chat[index];
        if (!message) throw new ValueTrackerError(`There is no message ${index}.`, { code: 'message_not_found' });
        return message;
    }

    /**
     * @param {number} index
     * @param {Message} message
     * @param {string} text
     */
    async #write(index, message, text) {
        const context = this.context();
        message.mes = text;
        if (Array.isArray(message.swipes) && typeof message.swipes[message.swipe_id ?? 0] === 'string') {
            message.swipes[message.swipe_id ?? 0] = text;
        }
        context.updateMessageBlock?.(index, message);
        await context.saveChat?.();
    }
}
