/**
 * A branch of SillyTavern's that begins with a checkpoint, rather than with what its message has now.
 */

import { ServerAwayError, ValueTrackerError } from '../errors.js';
import { path } from './transport.js';

/** @typedef {{checkpoint: string, differs: boolean}} Begun `differs`: the messages are not those of the checkpoint */

/**
 * Makes the branch on the server, before it is opened.
 *
 * @param {import('./session.js').Session} session
 * @returns {Promise<Begun|null>}
 */
export async function beginBranch(session) {
    const { parent, checkpoint } = session.which;
    const { transport } = session.owner;
    if (parent === undefined || checkpoint?.extensionId !== transport.extensionId) return null;
    try {
        await transport.request('POST', `${path('chats', parent)}/branches`, {
            body: { chatId: session.id, from: { checkpoint: checkpoint.name } },
        });
    } catch (error) {
        if (error instanceof ServerAwayError || !(error instanceof ValueTrackerError)) throw error;
        // It has begun before, and the page was closed then; or the checkpoint is gone, and the message has to do.
        if (error.code !== 'chat_exists') session.owner.emit('error', error);
        done(session);
        return null;
    }
    return { checkpoint: checkpoint.name, differs: false };
}

/**
 * A message that was swiped since the checkpoint takes its values along: they are set once more.
 *
 * @param {import('./session.js').Session} session
 * @param {Begun} begun
 * @param {any} report of the chain
 */
export async function settleBranch(session, begun, report) {
    const differs = Boolean(report?.changed.length);
    try {
        if (differs) {
            await session.callInLane('POST', '/restore', { body: { revision: session.opened.revision } });
            await session.mirror.readAgain('load');
        }
        session.begun = { ...begun, differs };
    } catch (error) {
        if (error instanceof ServerAwayError || !(error instanceof ValueTrackerError)) throw error;
        session.owner.emit('error', error);
    }
    done(session);
}

/** @param {import('./session.js').Session} session */
function done(session) {
    delete session.which.checkpoint;
    if (session.isCurrent()) session.owner.page?.begun();
}
