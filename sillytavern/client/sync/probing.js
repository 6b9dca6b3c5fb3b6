/**
 * Asks a server that is away, again and again, if it is back.
 */

export class Probing {
    /** @type {ReturnType<typeof setTimeout>|null} */
    #timer = null;
    /** @type {Promise<void>|null} */
    #asking = null;

    /**
     * @param {() => Promise<boolean>} ask returns true if it is back
     * @param {[number, number]} pauses the first and the longest, in milliseconds
     */
    constructor(ask, [first, longest]) {
        this.ask = ask;
        this.first = first;
        this.longest = longest;
    }

    /** @param {number} [pause] */
    start(pause = this.first) {
        this.stop();
        this.#timer = setTimeout(() => this.#attempt(pause), pause);
        /** @type {any} */ (this.#timer).unref?.();
    }

    /** Ask now, instead of after the pause. */
    async now() {
        this.stop();
        await this.#attempt(this.first);
    }

    stop() {
        if (this.#timer !== null) clearTimeout(this.#timer);
        this.#timer = null;
    }

    /** @param {number} pause */
    async #attempt(pause) {
        this.#asking ??= this.ask().then((back) => {
            this.#asking = null;
            if (!back) this.start(Math.min(pause * 2, this.longest));
        });
        await this.#asking;
    }
}
