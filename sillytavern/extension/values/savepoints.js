/**
 * Save points: what the player calls the checkpoints of this extension. SillyTavern has checkpoints of
 * its own, which are chats.
 *
 * A save point copies the lorebook that is bound to the chat, and a branch that begins with it is bound
 * to the copy. Every save point that is made, restored or begun with is told with the tracker's event
 * `savepoint`.
 */

import { exactText } from '../client/valuetracker.js';
import { settings } from '../settings.js';

/** @typedef {import('./tracker.js').Tracker} Tracker */
/**
 * @typedef {object} Told
 * @property {'created'|'restored'|'branched'|'failed'} what
 * @property {string} name
 * @property {string} [createdAt]
 * @property {string|null} [messageId]
 * @property {number} [values] the number of values
 * @property {number} [changed] the number of values that a restore changed
 * @property {number} [bytes]
 * @property {Record<string, number|null>} [versions] the current version of each series
 * @property {{name: string, entries: number}} [lorebook] the copy
 * @property {string[]} errors
 * @property {string[]} warnings
 */

/** Where SillyTavern keeps the name of the chat's lorebook. */
const BOUND = 'world_info';
/** Refusals that are about the lorebook alone. */
const WITHOUT_LOREBOOK = new Set(['lorebook_not_found', 'lorebook_damaged', 'source_not_found', 'not_writable', 'admin_required']);
const ACTIVE = new Set(['pending', 'in_progress', 'retrying']);

/** @returns {string|undefined} */
function boundLorebook() {
    const name = SillyTavern.getContext().chatMetadata?.[BOUND];
    return typeof name === 'string' && name ? name : undefined;
}

/**
 * Create a save point as of a message; it records the visible swipe. While operations are running, that
 * is told with the event `pending`, and the error is thrown.
 *
 * @param {Tracker} tracker
 * @param {number} message
 * @param {string} name
 * @param {boolean} [whenReady] wait for the operations
 * @returns {Promise<{name: string}>}
 */
export async function createSavepoint(tracker, message, name, whenReady = false) {
    const { chat } = tracker;
    const lorebook = settings().lorebook ? boundLorebook() : undefined;
    const about = {
        name: name || undefined, message, whenReady, lorebook,
        expect: { messageCount: message + 1 }, meta: { swipe: chat.swipeId(message) },
    };
    /** @type {string[]} */
    const warnings = [];
    try {
        const made = await chat.checkpoints.create(about).catch(async (/** @type {any} */ error) => {
            if (lorebook === undefined || !WITHOUT_LOREBOOK.has(error.code)) throw error;
            warnings.push(error.message);
            return await chat.checkpoints.create({ ...about, lorebook: undefined });
        });
        if (made.status === 'ready') await tell(tracker, chat, 'created', made, warnings);
        else tracker.emit('waiting', made.name);
        return made;
    } catch (error) {
        if (/** @type {any} */ (error).code === 'operations_pending') tracker.emit('pending', { message, name });
        throw error;
    }
}

/**
 * @param {Tracker} tracker
 * @param {any} chat
 * @param {'created'|'restored'} what
 * @param {any} record
 * @param {string[]} warnings
 * @param {object} [more]
 */
async function tell(tracker, chat, what, record, warnings, more = {}) {
    const { name, createdAt, messageId, state } = record;
    const whole = await chat.checkpoints.state(name).catch(() => null);
    tracker.emit('savepoint', {
        what, name, createdAt, messageId, ...counted(state), lorebook: state?.lorebook,
        bytes: whole ? new TextEncoder().encode(exactText(whole)).length : undefined,
        errors: [], warnings: [...warnings, ...record.warnings], ...more,
    });
}

/** @param {any} state of a record */
function counted(state) {
    const { rows, series = {} } = state ?? {};
    return {
        values: rows ? rows.data + rows.values : undefined,
        versions: Object.fromEntries(Object.entries(series).map(([name, one]) => [name, one.currentVersion])),
    };
}

/**
 * Tell of a save point that waited for operations, and is ready now or has failed.
 *
 * @param {Tracker} tracker
 * @param {any} chat
 * @param {{name: string, status: string, warnings: string[]}} checkpoint
 */
export async function tellWaited(tracker, chat, { name, status, warnings }) {
    if (status === 'failed') tracker.emit('savepoint', { what: 'failed', name, errors: warnings, warnings: [] });
    else await tell(tracker, chat, 'created', await chat.checkpoints.get(name), []);
}

/**
 * Restore a save point. One that does not validate is refused, unless `force` is true.
 *
 * @param {Tracker} tracker
 * @param {string} name
 * @param {boolean} [force]
 * @returns {Promise<{changed: number}>}
 */
export async function restoreSavepoint(tracker, name, force = false) {
    const { chat } = tracker;
    const report = await chat.checkpoints.restore(name, { force });
    const record = await chat.checkpoints.get(name);
    const { changed, errors, warnings } = report;
    await tell(tracker, chat, 'restored', { ...record, warnings: [] }, warnings, { changed, errors });
    return report;
}

/**
 * Return the active operations of the chat: how many of each type, and the stages they have reached.
 *
 * @param {any} chat
 * @returns {Promise<Array<{type: string, count: number, stages: string[]}>>}
 */
export async function activeOperations(chat) {
    const active = (await chat.operations.list()).filter((/** @type {any} */ { status }) => ACTIVE.has(status));
    const types = [...new Set(active.map((/** @type {any} */ { type }) => type))];
    return types.map((type) => {
        const some = active.filter((/** @type {any} */ one) => one.type === type);
        return { type, count: some.length, stages: some.map((/** @type {any} */ { stage }) => stage).filter(Boolean) };
    });
}

/**
 * Bind each branch to the copy of its save point's lorebook, validate it, and tell what it began with.
 *
 * @param {Tracker} tracker
 */
export function followBranches(tracker) {
    tracker.on('chat', (chat) => {
        if (!chat?.origin?.record || chat.away) return;
        check(tracker, chat).catch((error) => console.info('[ValueTracker] The branch was not validated.', error));
    });
}

/**
 * @param {Tracker} tracker
 * @param {any} chat
 */
async function check(tracker, chat) {
    const { origin, begun } = chat;
    const { name, createdAt, versions, rows } = origin.record;
    // Counted up to the message of the branch: the player may have gone on since.
    const last = origin.messageId ? chat.messageIndex(origin.messageId) : -1;
    const messageCount = last < 0 ? SillyTavern.getContext().chat.length : last + 1;
    const warnings = name && settings().lorebook ? await bindLorebook(tracker, chat, name) : [];
    if (chat !== tracker.chat) return;
    const actual = { ...(begun ? { messageCount } : {}), ...(boundLorebook() ? { lorebook: boundLorebook() } : {}) };
    const report = await chat.validate(actual);
    if (chat !== tracker.chat) return;
    const told = { errors: report.errors, warnings: [...warnings, ...report.warnings] };
    // A branch that SillyTavern began at a message is told only if something is wrong with it.
    if (!name && !told.errors.length && !told.warnings.length) return;
    tracker.emit('savepoint', { what: 'branched', name: name ?? '', createdAt, values: rows.data + rows.values, versions, ...told });
}

/**
 * Bind a branch to the copy of the lorebook, once: the player may bind another one later.
 *
 * @param {Tracker} tracker
 * @param {any} chat
 * @param {string} name of the save point
 * @returns {Promise<string[]>} warnings
 */
async function bindLorebook(tracker, chat, name) {
    const { chatMetadata, saveMetadata, updateWorldInfoList } = SillyTavern.getContext();
    // SillyTavern copies the metadata into a branch: the id says whose mark it is.
    if (chatMetadata.valuetracker?.lorebookOf === chat.id) return [];
    const part = encodeURIComponent;
    let copy;
    try {
        const { body } = await tracker.vt.request('GET', `/chats/${part(chat.origin.chatId)}/checkpoints/${part(name)}`);
        copy = body.state?.lorebook;
    } catch (error) {
        // The save point was removed; the branch keeps the lorebook of its parent.
        return [/** @type {Error} */ (error).message];
    }
    if (chat !== tracker.chat) return [];
    if (copy) {
        await updateWorldInfoList?.();
        chatMetadata[BOUND] = copy.name;
        for (const button of document.querySelectorAll('.chat_lorebook_button')) button.classList.add('world_set');
    }
    chatMetadata.valuetracker = { ...chatMetadata.valuetracker, lorebookOf: chat.id };
    await saveMetadata();
    return [];
}
