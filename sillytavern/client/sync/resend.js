/**
 * Sends unanswered requests again when the server is back.
 *
 * A request that was not answered may have been applied. It is sent again with the same idempotency
 * key, so it is applied once. It keeps its operators: an increment adds to the value the server has now.
 */

import { ServerAwayError, ValueTrackerError } from '../errors.js';
import { ABSENT, equalJson, overwrites } from '../state/json.js';
import { valueIn } from '../state/values.js';
import { headersOf, path } from './transport.js';

/** @typedef {{chatId: string, operations: any[], actor: string, key: string}} Unanswered */

const MOST_CHANGES = 1000;

/**
 * @param {import('./transport.js').Transport} transport
 * @param {Unanswered} request
 */
export async function resend(transport, { chatId, operations, actor, key }) {
    return await transport.request('POST', `${path('chats', chatId)}/batch`, { body: { operations }, key, headers: headersOf({ actor }) });
}

/**
 * Send the unanswered requests of an open chat again. A request that would undo another client's
 * write is dropped: its values are kept in the chat too, and those are then reported as conflicts.
 *
 * @param {import('./session.js').Session} session
 */
export async function resendUnanswered(session) {
    const { owner, saver, kept, base } = session;
    for (const request of saver.unanswered) {
        const { body } = await owner.transport.request('GET', `${base}/state`);
        if (session.isCurrent() && kept.wouldUndo(request.operations, (...at) => valueIn(body, ...at))) continue;
        try {
            const answer = await resend(owner.transport, request);
            if (body) await reportOverwritten(session, request.operations, body.revision, answer);
        } catch (error) {
            // A refused request has changed nothing, and would be refused each time. Its values are kept in the
            // chat, too: moving those to the server reports why it does not take them.
            if (error instanceof ServerAwayError || !(error instanceof ValueTrackerError)) throw error;
        }
    }
    saver.unanswered = [];
}

/**
 * Emit `conflict` for each value that another client wrote after our read and that our write replaced.
 *
 * @param {import('./session.js').Session} session
 * @param {any[]} operations that we wrote
 * @param {number} after the revision of our read
 * @param {import('./transport.js').Answer} answer
 */
export async function reportOverwritten(session, operations, after, { headers }) {
    const before = Number(headers.get('x-revision'));
    if (before <= after + 1 || headers.has('idempotency-replayed')) return;
    const query = { after, before, limit: MOST_CHANGES };
    const { body } = await session.owner.transport.request('GET', `${session.base}/history`, { query });
    for (const { op, instanceId = null, key, value } of operations) {
        const theirs = overwrites(op) && body.items.find((/** @type {any} */ one) => one.instanceId === instanceId && one.key === key && one.live && !one.superseded);
        if (!theirs) continue;
        const mine = op === 'set' ? value : ABSENT;
        const there = 'after' in theirs ? theirs.after : ABSENT;
        if (!equalJson(mine, there)) session.mirror.conflict(instanceId, key, mine, there, 'mine', before);
    }
}
