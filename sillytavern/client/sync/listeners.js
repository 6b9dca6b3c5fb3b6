/**
 * The handlers of the library's own events. A handler that fails does not keep the others from being called.
 */

/** @typedef {'chat'|'change'|'saved'|'reconciled'|'conflict'|'status'|'moved'|'stale'|'error'|'checkpoints'|'operations'} EventName */

export class Listeners {
    /** @type {Map<string, Set<(argument: any) => any>>} */
    #handlers = new Map();

    /**
     * @param {EventName} name
     * @param {(argument: any) => any} handler
     * @returns {() => void} removes the handler
     */
    on(name, handler) {
        const handlers = this.#handlers.get(name) ?? new Set();
        this.#handlers.set(name, handlers.add(handler));
        return () => handlers.delete(handler);
    }

    /**
     * @param {string} name
     * @param {any} argument
     */
    emit(name, argument) {
        const handlers = this.#handlers.get(name);
        if (!handlers?.size) {
            if (name === 'error') console.error('[ValueTracker]', argument);
            if (name === 'conflict') console.warn(`[ValueTracker] Conflict at ${argument.key}: ${argument.kept} is kept.`, argument);
            if (name === 'stale' && argument) console.warn('[ValueTracker] Another tab is ahead in this chat; reload the page here.');
            return;
        }
        for (const handler of [...handlers]) {
            try {
                handler(argument);
            } catch (error) {
                console.error('[ValueTracker] A handler failed.', error);
            }
        }
    }
}
