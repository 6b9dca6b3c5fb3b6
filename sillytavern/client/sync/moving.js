/**
 * Brings what was kept with a chat while the server was away to it, once.
 */

import { ServerAwayError, ValueTrackerError } from '../errors.js';
import { ABSENT } from '../state/json.js';
import { hashText } from '../tavern/ids.js';
import { groundsOf, settle } from './away.js';
import { tellOverwritten } from './late.js';
import { MOST_OPERATIONS } from './saver.js';
import { headersOf } from './transport.js';

/** @param {import('./session.js').Session} session */
export async function move(session) {
    const entry = session.findKept();
    if (!entry) return;
    const { write, conflicts } = settle(entry, (instanceId, key) => session.mirror.theirs(instanceId, key));
    const gone = write.filter(({ instanceId }) => instanceId !== null && !session.rows.has(instanceId));
    const rows = write.filter((row) => !gone.includes(row));
    session.kept.trying(entry, rows);
    try {
        for (const [part, some] of /** @type {const} */ ([['ground', groundsOf(rows)], ['rows', rows]])) {
            for (const actor of ['extension', 'user']) {
                await moveRows(session, `${entry.id}-${part}`, some.filter((row) => row.actor === actor), actor);
            }
        }
    } catch (error) {
        if (error instanceof ServerAwayError || !(error instanceof ValueTrackerError)) throw error;
        // Another content under the same key: it has been moved before, and was changed since.
        if (error.code !== 'idempotency_mismatch') {
            session.owner.emit('error', error);
            return;
        }
    }
    if (session.isCurrent()) {
        session.kept.remove(entry);
        await session.save();
    }
    await session.mirror.readAgain('load');
    for (const { instanceId, key, theirs, ...row } of [...conflicts, ...gone.map((row) => ({ ...row, theirs: ABSENT }))]) {
        session.mirror.conflict(instanceId, key, 'value' in row ? row.value : ABSENT, theirs, 'theirs');
    }
    session.owner.emit('moved', { keys: rows.map((row) => row.key), conflicts: [...conflicts, ...gone].map((row) => row.key) });
}

/**
 * @param {import('./session.js').Session} session
 * @param {string} name of the content
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
        // Named after its content: if the answer is lost, or the page is closed before the entry is
        // removed, it does not happen twice. A branch has a copy of the entry, and is another chat.
        const key = `away-${name}-${hashText(session.id)}-${actor}-${from}`;
        const seen = session.revision;
        const answer = await session.callInLane('POST', '/batch', { body: { operations }, key, headers: headersOf({ actor }) });
        session.revision = Math.max(session.revision, answer.body.revision);
        await tellOverwritten(session, operations, seen, answer);
    }
}
