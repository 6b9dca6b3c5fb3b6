/**
 * The chat files that were opened in this browser, so that the chat of a deleted file can be archived:
 * SillyTavern names the file alone, and its id is gone with it.
 *
 * They are kept in the browser's storage. A deletion stays there until the server has answered it.
 */

import { ServerAwayError } from '../errors.js';
import { path } from './transport.js';

/** @typedef {{name: string, owner: string, id: string, deleted?: boolean}} Known */

const MOST = 2000;

export class Files {
    /** @type {Known[]} oldest first */
    #known;
    #name;

    /**
     * @param {import('./transport.js').Transport} transport
     * @param {import('../tavern/page.js').Page} page
     */
    constructor(transport, page) {
        this.transport = transport;
        this.page = page;
        this.#name = `valuetracker.files.${transport.extensionId}`;
        this.#known = read(this.#name);
    }

    /**
     * Remember the file of a chat. A chat has one file: after a rename the old one is forgotten.
     *
     * @param {string} id
     */
    noteOpen(id) {
        const { name, owner } = this.page.file();
        const last = this.#known.at(-1);
        void this.archive();
        if (last?.id === id && last.name === name && last.owner === owner && !last.deleted) return;
        this.#known = [...this.#known.filter((one) => one.id !== id), { name, owner, id }].slice(-MOST);
        this.#save();
    }

    /**
     * A file was deleted. Two characters may have files of one name: those that still exist are not meant.
     *
     * @param {string} name
     */
    async handleDeleted(name) {
        for (const one of this.#known.filter((known) => known.name === name)) {
            if (!(await this.page.exists(one))) one.deleted = true;
        }
        this.#save();
        await this.archive();
    }

    /** Archive the chats of deleted files on the server. The open chat is not one of them, whatever was deleted. */
    async archive() {
        const open = this.page.current()?.id;
        for (const one of this.#known.filter(({ deleted, id }) => deleted && id !== open)) {
            try {
                await this.transport.request('DELETE', path('chats', one.id));
            } catch (error) {
                // Tried again when the server is back.
                if (error instanceof ServerAwayError) return;
                // The server does not know a chat that was never opened there.
                console.info('[ValueTracker] The chat of a deleted file could not be archived.', error);
            }
            this.#known = this.#known.filter((known) => known !== one);
            this.#save();
        }
    }

    #save() {
        try {
            globalThis.localStorage?.setItem(this.#name, JSON.stringify(this.#known));
        } catch {
            // The storage is full or forbidden: the files of this page are known all the same.
        }
    }
}

/**
 * @param {string} name
 * @returns {Known[]}
 */
function read(name) {
    try {
        const found = JSON.parse(globalThis.localStorage?.getItem(name) ?? '[]');
        return Array.isArray(found) ? found : [];
    } catch {
        return [];
    }
}
