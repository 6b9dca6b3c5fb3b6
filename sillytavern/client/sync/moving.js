/**
 * Writes the values that were kept in a chat to the server, once, when the server is back.
 */

import { ServerAwayError, ValueTrackerError } from '../errors.js';
import { ABSENT } from '../state/json.js';
import { hashText } from '../tavern/ids.js';
import { splitByConflict, unanchoredRowsBelow } from './away.js';
import { reportOverwritten } from './resend.js';
import { MOST_OPERATIONS } from './saver.js';
import { headersOf } from './transport.js';

/** @param {import('./session.js').Session} session */
export async function moveToServer(session) {
    const entry = session.findKept();
    if (!entry) return;
    const { write, conflicts } = splitByConflict(entry, (instanceId, key) => session.mirror.serverValue(instanceId, key));
    const orphaned = write.filter(({ instanceId }) => instanceId !== null && !session.rows.has(instanceId));
    const rows = write.filter((row) => !orphaned.includes(row));
    session.kept.noteAttempt(entry, rows);
    try {
        for (const [part, some] of /** @type {const} */ ([['ground', unanchoredRowsBelow(rows)], ['rows', rows]])) {
            for (const actor of ['extension', 'user']) {
                await moveRows(session, `${entry.id}-${part}`, some.filter((row) => row.actor === actor), actor);
            }
        }
    } catch (error) {
        if (error instanceof ServerAwayError || !(error instanceof ValueTrackerError)) throw error;
        // The server knows this idempotency key with other content: the entry was moved before and has changed since.
        if (error.code !== 'idempotency_mismatch') {
            session.owner.emit('error', error);
            return;
        }
    }
    if (session.isCurrent()) {
        session.kept.remove(entry);
        session.saver.noteFiled();
        await session.save();
    }
    await session.mirror.readAgain('load');
    for (const { instanceId, key, theirs, ...row } of [...conflicts, ...orphaned.map((row) => ({ ...row, theirs: ABSENT }))]) {
        session.mirror.conflict(instanceId, key, 'value' in row ? row.value : ABSENT, theirs, 'theirs');
    }
    session.owner.emit('moved', { keys: rows.map((row) => row.key), conflicts: [...conflicts, ...orphaned].map((row) => row.key) });
}

/**
 * @param {import('./session.js').Session} session
 * @param {string} name names the content; part of the idempotency key
 * @param {import('./away.js').AwayRow[]} rows
 * @param {string} actor
 */
async function moveRows(session, name, rows, actor) {
    for (let from = 0; from < rows.length; from += MOST_OPERATIONS) {
        const operations = rows.slice(from, from + MOST_OPERATIONS).map(({ instanceId, key, anchor, ...row }) => ({
            ...('value' in row ? { op: 'set', key, value: row.value } : { op: 'remove', key }),
            ...(instanceId === null ? {} : { instanceId }),
            ...(anchor ? { anchor } : {}),
        }));
        // The key names the content. So a request whose answer is lost, or whose entry is not removed because
        // the page closes, is applied once. The chat id is part of it, because a branch copies the entry.
        const key = `away-${name}-${hashText(session.id)}-${actor}-${from}`;
        const seen = session.revision;
        const answer = await session.callInQueue('POST', '/batch', { body: { operations }, key, headers: headersOf({ actor }) });
        session.revision = Math.max(session.revision, answer.body.revision);
        await reportOverwritten(session, operations, seen, answer);
    }
}
