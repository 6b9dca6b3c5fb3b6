/**
 * Ids of messages and swipes, kept in `message.extra`, and the chain of visible messages.
 *
 * Every extension and every copy of this library uses the same property; the first one sets it.
 * `extra` belongs to the swipe: SillyTavern swaps it together with the text, and copies it into a new
 * swipe. So if two swipes of a message have the same id, the one with the higher number is the copy.
 */

import { shortId } from '../state/json.js';
import { withoutInserts } from './markers.js';

/**
 * The fields of a SillyTavern message that are used here.
 *
 * @typedef {object} Message
 * @property {string} [mes]
 * @property {boolean} [is_user]
 * @property {boolean} [is_system]
 * @property {Record<string, any>} [extra]
 * @property {number} [swipe_id]
 * @property {string[]} [swipes]
 * @property {Array<{extra?: Record<string, any>, [name: string]: any}>} [swipe_info]
 * @property {any} [send_date]
 */
/** @typedef {{messageId: string, swipe: string}} Anchor */
/** @typedef {{messageId: string, swipe: string, hash?: string}} Link */

const PROPERTY = 'valuetracker';

/**
 * State shared by all copies of this library on one page: the running generation, and the ids
 * reserved for the message it will add.
 *
 * @typedef {object} Shared
 * @property {{type: string, received: boolean, gave?: Anchor}|null} generation `gave`: the reserved ids that its message got
 * @property {(Anchor & {used: boolean})|null} reserved
 * @property {{parent: string, extensionId: string, checkpoint: string}|null} [branching] the checkpoint that the next branch of a chat starts from
 * @property {number} insisted the number of `insist` calls on this page
 */

/** @returns {Shared} */
export function shared() {
    const page = /** @type {any} */ (globalThis);
    const name = Symbol.for('valuetracker.page');
    page[name] ??= { generation: null, reserved: null };
    page[name].insisted ??= 0;
    return page[name];
}

/**
 * @param {Record<string, any>|undefined} extra
 * @returns {{messageId?: string, swipeId?: string, inserts?: any}}
 */
function idsIn(extra) {
    const found = extra && typeof extra === 'object' && Object.hasOwn(extra, PROPERTY) ? extra[PROPERTY] : undefined;
    return found && typeof found === 'object' ? found : {};
}

/**
 * Set the ids in an `extra`. Data of another swipe is dropped.
 *
 * @param {any} holder a message, or an entry of its `swipe_info`
 * @param {string} messageId
 * @param {string} swipeId
 * @returns {boolean} true if the ids changed
 */
function setIds(holder, messageId, swipeId) {
    if (!holder.extra || typeof holder.extra !== 'object') holder.extra = {};
    const old = idsIn(holder.extra);
    if (old.messageId === messageId && old.swipeId === swipeId) return false;
    holder.extra[PROPERTY] = { messageId, swipeId };
    return true;
}

/**
 * Make sure that a message and each of its swipes have ids.
 *
 * @param {Message} message
 * @param {{last: boolean, taken?: Set<string>}} about `taken`: ids of other messages
 * @returns {{messageId: string, swipe: string|null, changed: boolean}} `swipe` is null while a new swipe is being generated
 */
export function identify(message, { last, taken = new Set() }) {
    const { reserved } = shared();
    const swipes = Array.isArray(message.swipes) ? message.swipes : null;
    if (swipes && !Array.isArray(message.swipe_info)) message.swipe_info = [];
    const infos = message.swipe_info ?? [];
    const known = [message, ...infos].map((holder) => idsIn(holder?.extra).messageId).find((id) => id && !taken.has(id));
    const fresh = known === undefined;
    const awaited = reserved && last && fresh && !message.is_user && !message.is_system && !taken.has(reserved.messageId)
        ? reserved : null;
    const messageId = known ?? awaited?.messageId ?? shortId();
    if (awaited) giveReserved(awaited);
    if (fresh && last && !message.is_user && !message.is_system) noteArrival();

    /** @type {Set<string>} */
    const used = new Set();
    /** @param {(string|undefined)[]} candidates */
    const choose = (...candidates) => {
        // A copied message carries the swipe ids of the original; it needs new ones.
        let id = fresh ? undefined : candidates.find((candidate) => candidate && !used.has(candidate));
        if (!id && awaited) id = awaited.swipe;
        if (!id || used.has(id)) id = shortId();
        used.add(id);
        return id;
    };
    if (!swipes) {
        const swipe = choose(idsIn(message.extra).swipeId);
        return { messageId, swipe, changed: setIds(message, messageId, swipe) };
    }
    const current = message.swipe_id ?? 0;
    let visible = null;
    let changed = false;
    for (let index = 0; index < swipes.length; index++) {
        const isCurrent = index === current;
        const info = infos[index];
        // Prefer the entry in `swipe_info`: after a deletion `extra` is still that of the deleted swipe.
        const own = [idsIn(info?.extra).swipeId, isCurrent ? idsIn(message.extra).swipeId : undefined];
        const isNew = isCurrent && last && !fresh && !own.some((id) => id && !used.has(id));
        const id = isNew && reserved?.messageId === messageId ? reserved.swipe : choose(...own);
        used.add(id);
        if (isNew) {
            if (reserved?.messageId === messageId) shared().reserved = null;
            noteArrival();
        }
        if (isCurrent) {
            visible = id;
            changed = setIds(message, messageId, id) || changed;
        }
        if (info && typeof info === 'object') {
            changed = setIds(info, messageId, id) || changed;
        } else if (typeof swipes[index] === 'string') {
            // Old chats have no entry. (SillyTavern makes the entry of a swipe that is being received from `extra`.)
            infos[index] = {
                send_date: message.send_date,
                extra: isCurrent ? structuredClone(message.extra) : { [PROPERTY]: { messageId, swipeId: id } },
            };
            changed = true;
        }
    }
    // A swipe that is generated again after its calls keeps its id: no other swipe has it.
    const again = visible === null && shared().generation ? idsIn(message.extra).swipeId : undefined;
    if (again && !used.has(again)) visible = again;
    return { messageId, swipe: visible, changed };
}

/** @param {Anchor} reserved */
function giveReserved({ messageId, swipe }) {
    const page = shared();
    page.reserved = null;
    if (page.generation) page.generation.gave = { messageId, swipe };
}

/**
 * Reserve the ids of the coming message again if SillyTavern has deleted the message that got them.
 *
 * @param {Message[]} messages
 */
export function reserveAgain(messages) {
    const page = shared();
    if (!page.generation) return;
    page.generation.received = false;
    const { gave } = page.generation;
    if (gave && !page.reserved && !hasMessage(messages, gave.messageId)) page.reserved = { ...gave, used: true };
}

/** Record that the message of the running generation has arrived. */
function noteArrival() {
    const { generation } = shared();
    if (generation) generation.received = true;
}

/**
 * Return the chain: the visible messages, oldest first, each with its swipe.
 *
 * @param {Message[]} messages
 * @returns {{chain: Link[], changed: boolean, open: boolean}} `open`: a swipe of a message is being generated
 */
export function chainOf(messages) {
    /** @type {Set<string>} */
    const taken = new Set();
    /** @type {Link[]} */
    const chain = [];
    let changed = false;
    let open = false;
    messages.forEach((message, index) => {
        const ids = identify(message, { last: index === messages.length - 1, taken });
        taken.add(ids.messageId);
        changed ||= ids.changed;
        const { reserved } = shared();
        if (ids.swipe !== null) {
            const made = !message.swipes || (message.swipe_id ?? 0) < message.swipes.length;
            chain.push({ messageId: ids.messageId, swipe: ids.swipe, ...(made ? { hash: hashOf(message) } : {}) });
            open ||= !made;
        } else if (reserved?.used && reserved.messageId === ids.messageId) {
            chain.push({ messageId: ids.messageId, swipe: reserved.swipe });
        } else {
            open = true;
        }
    });
    const { reserved } = shared();
    if (reserved?.used && !taken.has(reserved.messageId)) {
        chain.push({ messageId: reserved.messageId, swipe: reserved.swipe });
    }
    return { chain, changed, open };
}

/**
 * Return the default anchor of a write: the coming message, else the last one.
 *
 * @param {Message[]} messages
 * @returns {{anchor: Anchor|null, changed: boolean}}
 */
export function anchorNow(messages) {
    const page = shared();
    const last = messages.at(-1);
    // A message that is being streamed is already in the chat: this call notices that it has arrived.
    const ids = last ? identify(last, { last: true }) : null;
    if (page.generation && !page.generation.received && generating()) {
        const swiped = page.generation.type === 'swipe' ? ids : null;
        // The swipe is generated again: its id is known.
        if (swiped?.swipe) return { anchor: { messageId: swiped.messageId, swipe: swiped.swipe }, changed: swiped.changed };
        page.reserved ??= { messageId: swiped?.messageId ?? shortId(), swipe: shortId(), used: false };
        page.reserved.used = true;
        return { anchor: { messageId: page.reserved.messageId, swipe: page.reserved.swipe }, changed: ids?.changed ?? false };
    }
    for (let index = messages.length - 1; index >= 0; index--) {
        const ids = identify(messages[index], { last: index === messages.length - 1 });
        if (ids.swipe !== null) return { anchor: { messageId: ids.messageId, swipe: ids.swipe }, changed: ids.changed };
    }
    return { anchor: null, changed: false };
}

/**
 * @param {Message[]} messages
 * @param {string} messageId
 */
export function hasMessage(messages, messageId) {
    return shared().reserved?.messageId === messageId || messages.some((message) => [message, ...(message.swipe_info ?? [])]
        .some((holder) => idsIn(holder?.extra).messageId === messageId));
}

/** Return true while SillyTavern generates. Without a document only the events are known. */
function generating() {
    const body = /** @type {any} */ (globalThis).document?.body;
    return !body?.dataset || body.dataset.generating !== undefined;
}

/** @type {WeakMap<Message, {mes: string, hash: string}>} */
const hashes = new WeakMap();

/** @param {Message} message */
function hashOf(message) {
    const mes = message.mes ?? '';
    const known = hashes.get(message);
    if (known && known.mes === mes) return known.hash;
    const hash = hashText(withoutInserts(mes));
    hashes.set(message, { mes, hash });
    return hash;
}

/**
 * Hash a text with cyrb53 (53 bits): enough to detect an edit.
 *
 * @param {string} text
 */
export function hashText(text) {
    let high = 0xdeadbeef;
    let low = 0x41c6ce57;
    for (let index = 0; index < text.length; index++) {
        const code = text.charCodeAt(index);
        high = Math.imul(high ^ code, 2654435761);
        low = Math.imul(low ^ code, 1597334677);
    }
    high = Math.imul(high ^ (high >>> 16), 2246822507) ^ Math.imul(low ^ (low >>> 13), 3266489909);
    low = Math.imul(low ^ (low >>> 16), 2246822507) ^ Math.imul(high ^ (high >>> 13), 3266489909);
    return (4294967296 * (2097151 & low) + (high >>> 0)).toString(36);
}

/**
 * Return the index of the swipe with an id.
 *
 * @param {Message} message
 * @param {string} swipeId
 * @returns {number} −1 if there is none
 */
export function swipeIndex(message, swipeId) {
    if (!Array.isArray(message.swipes)) return idsIn(message.extra).swipeId === swipeId ? 0 : -1;
    return message.swipes.findIndex((_, index) => idsIn(message.swipe_info?.[index]?.extra).swipeId === swipeId);
}

/**
 * Return the copy of the inserts that is kept with the visible swipe of a message, of all extensions.
 *
 * @param {Message} message
 * @returns {import('./insertlist.js').Insert[]}
 */
export function insertsOf(message) {
    const { inserts } = idsIn(message.extra);
    return Array.isArray(inserts) ? inserts : [];
}

/**
 * @param {Message} message that has ids
 * @param {import('./insertlist.js').Insert[]} inserts
 */
export function setInserts(message, inserts) {
    const ids = idsIn(message.extra);
    if (inserts.length) ids.inserts = inserts;
    else delete ids.inserts;
}
