/**
 * The history of one value, read page by page from the server.
 */

/** How many changes are shown at first, and how many more with each request. */
const SHOWN = 12;
const PAGE = 100;

/** @typedef {import('./lines.js').Item} Item */

export class KeyHistory {
    /** Newest first. @type {Item[]} */
    items = [];
    /** True if there are more changes than `items`. */
    hasMore = false;
    /** False until the history was read. */
    known = false;
    #wanted = SHOWN;

    /**
     * @param {string|null} instanceId
     * @param {string} key
     */
    constructor(instanceId, key) {
        this.instanceId = instanceId;
        this.key = key;
    }

    /**
     * Read the newest changes, and of all older ones so many as are wanted.
     *
     * @param {any} chat
     */
    async load(chat) {
        /** @type {Item[]} */
        const found = [];
        /** @type {string|undefined} */
        let cursor;
        do {
            /** @type {{items: Item[], next: string|null}} */
            const page = await chat.history({ instanceId: this.instanceId ?? undefined, key: this.key, limit: PAGE, cursor });
            // The change itself shows that a swipe or a deletion has undone it.
            found.push(...page.items.filter((item) => !item.space && item.op !== 'reconcile' && (item.instanceId ?? null) === this.instanceId));
            cursor = page.next ?? undefined;
        } while (cursor !== undefined && found.length < this.#wanted);
        this.items = found.slice(0, this.#wanted);
        this.hasMore = cursor !== undefined || found.length > this.#wanted;
        this.known = true;
    }

    /** Want as many changes again. */
    extend() {
        this.#wanted *= 2;
    }
}
