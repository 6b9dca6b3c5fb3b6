/**
 * Does a piece of work soon after it was asked for: once for several requests, never twice at a time.
 *
 * No request is lost: one that arrives while the work runs has it done again, and work that fails is
 * tried again until it succeeds.
 */

const FIRST_RETRY_MS = 1000;
const LAST_RETRY_MS = 15_000;

export class Refresher {
    /** @type {ReturnType<typeof setTimeout>|null} */
    #timer = null;
    #due = 0;
    #running = false;
    #again = false;
    #retryMs = FIRST_RETRY_MS;

    /**
     * @param {() => unknown} work
     * @param {number} after milliseconds
     */
    constructor(work, after) {
        this.work = work;
        this.after = after;
    }

    /** @param {number} [after] milliseconds; an earlier request stays */
    request(after = this.after) {
        if (this.#running) {
            this.#again = true;
            return;
        }
        const due = Date.now() + after;
        if (this.#timer !== null && this.#due <= due) return;
        if (this.#timer !== null) clearTimeout(this.#timer);
        this.#due = due;
        this.#timer = setTimeout(() => this.#run(), after);
    }

    async #run() {
        this.#timer = null;
        this.#running = true;
        this.#again = false;
        let pause = null;
        try {
            await this.work();
            this.#retryMs = FIRST_RETRY_MS;
        } catch (error) {
            // The status shows that the server is away, or the chat is no longer open.
            console.debug('[ValueTracker]', error);
            pause = this.#retryMs;
            this.#retryMs = Math.min(pause * 2, LAST_RETRY_MS);
        }
        this.#running = false;
        if (this.#again) this.request();
        else if (pause !== null) this.request(pause);
    }
}
