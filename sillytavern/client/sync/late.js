/**
 * Requests of which nobody knows whether they arrived, sent once more when the server is back.
 *
 * They carry the idempotency key they had, so none happens twice. They are sent as they were said, so
 * that an increment counts on what is there now.
 */

import { ABSENT, equalJson, overwrites } from '../state/json.js';
import { valueIn } from '../state/values.js';
import { headersOf, path } from './transport.js';

/** @typedef {{chatId: string, operations: any[], actor: string, key: string}} Late */

const MOST_LOOKED_AT = 1000;

/**
 * @param {import('./transport.js').Transport} transport
 * @param {Late} late
 */
export async function sendLate(transport, { chatId, operations, actor, key }) {
    return await transport.request('POST', `${path('chats', chatId)}/batch`, { body: { operations }, key, headers: headersOf({ actor }) });
}

/**
 * Of an open chat. What would undo somebody else's work is not sent: what was kept with the chat is then
 * found to differ, and told as a conflict.
 *
 * @param {import('./session.js').Session} session
 */
export async function sendUnanswered(session) {
    const { owner, saver, kept, base } = session;
    for (const late of saver.unanswered) {
        const { body } = await owner.transport.request('GET', `${base}/state`);
        if (session.isCurrent() && kept.wouldUndo(late.operations, (...at) => valueIn(body, ...at))) continue;
        const answer = await sendLate(owner.transport, late);
        if (body) await tellOverwritten(session, late.operations, body.revision, answer);
    }
    saver.unanswered = [];
}

/**
 * Tells of what somebody else wrote between our looking and our writing: it is gone now.
 *
 * @param {import('./session.js').Session} session
 * @param {any[]} operations what we wrote
 * @param {number} after the revision we had looked at
 * @param {import('./transport.js').Answer} answer
 */
export async function tellOverwritten(session, operations, after, { headers }) {
    const before = Number(headers.get('x-revision'));
    if (before <= after + 1 || headers.has('idempotency-replayed')) return;
    const query = { after, before, limit: MOST_LOOKED_AT };
    const { body } = await session.owner.transport.request('GET', `${session.base}/history`, { query });
    for (const { op, instanceId = null, key, value } of operations) {
        const theirs = overwrites(op) && body.items.find((/** @type {any} */ one) => one.instanceId === instanceId && one.key === key && one.live);
        if (!theirs) continue;
        const mine = op === 'set' ? value : ABSENT;
        const there = 'after' in theirs ? theirs.after : ABSENT;
        if (!equalJson(mine, there)) session.mirror.conflict(instanceId, key, mine, there, 'mine', before);
    }
}
