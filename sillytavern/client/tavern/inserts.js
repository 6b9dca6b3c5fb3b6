/**
 * Text an extension puts into messages: once, verified, and brought back if it gets lost.
 *
 * Other extensions rewrite a message at the same time. So the content stands between markers
 * that tell whether it is there, and what should be there is remembered with the swipe.
 */

import { StaleChatError, ValueTrackerError } from '../errors.js';
import { insertsOf } from './ids.js';
import { END, changePercent, markerOf, placed, withoutInserts } from './markers.js';

/** @typedef {import('./ids.js').Message} Message */
/** @typedef {import('./markers.js').Position} Position */
/**
 * @typedef {object} Insertion
 * @property {boolean} inserted
 * @property {boolean} already it was there
 * @property {boolean} restored it got lost at once, and is back
 * @property {boolean} modified the text was another than what was looked at
 * @property {number} changePercent
 * @property {string[]} warnings
 */

export class Inserts {
    /**
     * @param {object} options
     * @param {string} options.extensionId
     * @param {string} options.chatId
     * @param {number} options.delayMs
     * @param {() => any} options.context SillyTavern's; throws if the chat is no longer open
     */
    constructor({ extensionId, chatId, delayMs, context }) {
        this.extensionId = extensionId;
        this.chatId = chatId;
        this.delayMs = delayMs;
        this.context = context;
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
        const seen = originalText ?? message.mes ?? '';
        // Most others do their part as soon as the message is there.
        await new Promise((resolve) => setTimeout(resolve, this.delayMs));

        const marker = markerOf(this.extensionId, id);
        const here = this.context().chat.indexOf(message);
        if (here < 0) throw new StaleChatError(this.chatId);
        /** @type {Insertion} */
        const report = { inserted: false, already: false, restored: false, modified: false, changePercent: 0, warnings: [] };
        if (message.swipe_id !== swipe) {
            report.warnings.push('The message was swiped away meanwhile.');
            return report;
        }
        const now = message.mes ?? '';
        if (now.includes(marker)) return { ...report, already: true };
        if (withoutInserts(now) !== withoutInserts(seen)) {
            report.modified = true;
            report.changePercent = changePercent(withoutInserts(seen), withoutInserts(now));
            report.warnings.push(`The message was changed by ${report.changePercent}% since it was looked at.`);
        }
        const { text, found } = placed(now, `${marker}${content}${END}`, position);
        if (!found) report.warnings.push('The place was not found; the content stands at the end.');
        const list = insertsOf(message);
        const old = list.findIndex((insert) => insert.extensionId === this.extensionId && insert.id === id);
        if (old >= 0) list.splice(old, 1);
        list.push({ extensionId: this.extensionId, id, content, position });
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
     * Brings back what was inserted into a message and is not there.
     *
     * @param {number} index
     * @returns {Promise<{missingCount: number, restoredCount: number, errors: string[]}>}
     */
    async reconcileMessage(index) {
        const message = this.#message(index);
        const missing = insertsOf(message).filter((insert) => insert.extensionId === this.extensionId
            && !(message.mes ?? '').includes(markerOf(insert.extensionId, insert.id)));
        /** @type {string[]} */
        const errors = [];
        let text = message.mes ?? '';
        for (const { extensionId, id, content, position } of missing) {
            // What was to be replaced is gone if it had been replaced before.
            text = placed(text, `${markerOf(extensionId, id)}${content}${END}`, position).text;
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
