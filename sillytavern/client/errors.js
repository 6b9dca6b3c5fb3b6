/**
 * The errors of the library. Errors from the server keep their codes.
 *
 *     ValueTrackerError
 *     ├── ChatNotLoadedError   no chat is loaded yet
 *     ├── StaleChatError       the handle belongs to a chat that is no longer open
 *     ├── StaleStateError      the object read from the state is no longer part of it
 *     └── ServerAwayError      the server does not answer, and the call needs it
 */

export class ValueTrackerError extends Error {
    /**
     * @param {string} message
     * @param {{code?: string, hint?: string|null, details?: Record<string, any>, status?: number, cause?: unknown}} [about]
     */
    constructor(message, { code = 'error', hint = null, details = {}, status = 0, cause } = {}) {
        super(message, cause === undefined ? undefined : { cause });
        this.name = new.target.name;
        this.code = code;
        this.hint = hint;
        this.details = details;
        this.status = status;
    }
}

export class ChatNotLoadedError extends ValueTrackerError {
    constructor(message = 'No chat is loaded.') {
        super(message, { code: 'chat_not_loaded', hint: 'Use vt.onChat(handler), or await vt.whenChat().' });
    }
}

export class StaleChatError extends ValueTrackerError {
    /** @param {string} chatId */
    constructor(chatId) {
        super('This handle belongs to a chat that is no longer open.', {
            code: 'stale_chat',
            hint: 'Read vt.chat again after every chat change; keep neither it nor parts of its state.',
            details: { chatId },
        });
    }
}

export class StaleStateError extends ValueTrackerError {
    /** @param {string} message */
    constructor(message = 'This object is no longer part of the state.') {
        super(message, { code: 'stale_state', hint: 'Read it from the state again.' });
    }
}

export class ServerAwayError extends ValueTrackerError {
    /**
     * @param {string} reason
     * @param {{status?: number, hint?: string|null, details?: Record<string, any>, cause?: unknown}} [about]
     */
    constructor(reason, about = {}) {
        super(`Value Tracker cannot be reached: ${reason}`, {
            code: 'server_away',
            hint: 'Values are kept in the chat until the server is back. Check that the server plugin is installed and running.',
            ...about,
        });
    }
}
