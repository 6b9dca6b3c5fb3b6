/**
 * Starts a SillyTavern branch from a checkpoint instead of from the current values of its last message.
 */

import { ServerAwayError, ValueTrackerError } from '../errors.js';
import { path } from './transport.js';

/** @typedef {{checkpoint: string, differs: boolean}} Begun `differs`: the messages of the branch are not those of the checkpoint */

/**
 * Create the branch on the server before the chat is opened.
 *
 * @param {import('./session.js').Session} session
 * @returns {Promise<Begun|null>}
 */
export async function beginBranch(session) {
    const { parent, checkpoint } = session.identity;
    const { transport } = session.owner;
    if (parent === undefined || checkpoint?.extensionId !== transport.extensionId) return null;
    try {
        await transport.request('POST', `${path('chats', parent)}/branches`, {
            body: { chatId: session.id, from: { checkpoint: checkpoint.name } },
        });
    } catch (error) {
        if (error instanceof ServerAwayError || !(error instanceof ValueTrackerError)) throw error;
        // `chat_exists`: an earlier load created the branch and the page was closed. Any other refusal (the
        // checkpoint was deleted) is reported, and the branch starts from its last message.
        if (error.code !== 'chat_exists') session.owner.emit('error', error);
        finishBranch(session);
        return null;
    }
    return { checkpoint: checkpoint.name, differs: false };
}

/**
 * Set the checkpoint's values again if reconciling changed them: a message may show another swipe than then.
 *
 * @param {import('./session.js').Session} session
 * @param {Begun} begun
 * @param {any} report of the reconcile
 */
export async function settleBranch(session, begun, report) {
    const differs = Boolean(report?.changed.length);
    try {
        if (differs) {
            await session.callInQueue('POST', '/restore', { body: { revision: session.opened.revision } });
            await session.mirror.readAgain('load');
        }
        session.begun = { ...begun, differs };
    } catch (error) {
        if (error instanceof ServerAwayError || !(error instanceof ValueTrackerError)) throw error;
        session.owner.emit('error', error);
    }
    finishBranch(session);
}

/** @param {import('./session.js').Session} session */
function finishBranch(session) {
    delete session.identity.checkpoint;
    if (session.isCurrent()) session.owner.page?.clearCheckpoint();
}
