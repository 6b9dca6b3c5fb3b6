/**
 * The parts of SillyTavern's page that the library uses: the open chat, its messages, its metadata.
 *
 * The context is requested again for every use, because its values are snapshots. `chatMetadata` is
 * never replaced, because SillyTavern would not notice; only its properties are set.
 */

import { newId } from '../state/json.js';
import { chainOf, identify, shared } from './ids.js';

/** The checkpoint that a branch starts from, and the extension that owns it. @typedef {{extensionId: string, name: string}} BranchStart */

/** A chat file: its `integrity`, its name, and the character or group it belongs to. @typedef {{integrity: string|undefined, name: string, owner: string}} File */

const PROPERTY = 'valuetracker';
const SAVE_AFTER_MS = 1_000;

export class Page {
    /** True if there may be ids that are not in the chat's file yet. */
    unsaved = false;
    /** @type {{timer: ReturnType<typeof setTimeout>, due: number, file: string|undefined}|null} */
    #later = null;

    /** @param {() => any} getContext */
    constructor(getContext) {
        this.getContext = getContext;
    }

    /** @returns {import('./ids.js').Message[]} */
    get messages() {
        return this.getContext().chat ?? [];
    }

    /**
     * Return the open chat: the name of its file, and its id.
     *
     * @returns {{file: string, id: string|undefined}|null}
     */
    current() {
        const context = this.getContext();
        const file = context.getCurrentChatId?.() ?? context.chatId;
        if (file === undefined || file === null || file === '') return null;
        const metadata = context.chatMetadata ?? {};
        const { integrity } = metadata;
        const { chatId, of } = this.#kept(metadata) ?? {};
        return { file: String(file), id: of !== undefined && of.integrity === integrity ? chatId : integrity ?? chatId };
    }

    /** @param {any} metadata */
    #kept(metadata) {
        const found = metadata && Object.hasOwn(metadata, PROPERTY) ? metadata[PROPERTY] : undefined;
        return found && typeof found === 'object' ? found : undefined;
    }

    /**
     * Return the library's part of the chat's metadata, shared by all extensions.
     *
     * @returns {{chatId?: string, of?: File, parent?: string, branchedAt?: string, checkpoint?: BranchStart, away?: any[], inserts?: any[]}}
     */
    kept() {
        const { chatMetadata } = this.getContext();
        return this.#kept(chatMetadata) ?? (chatMetadata[PROPERTY] = {});
    }

    /** Return the open file. @returns {File} */
    file() {
        return { integrity: this.getContext().chatMetadata?.integrity, name: this.current()?.file ?? '', owner: this.characterId() };
    }

    /**
     * Return true if this file is a copy of another file that still exists. An imported file has the metadata
     * of the original. A renamed file has them too, but then the original no longer exists.
     */
    async isCopy() {
        if (!this.current()) return false;
        const { of } = this.kept();
        const file = this.file();
        if (of?.integrity === undefined || of.integrity !== file.integrity) return false;
        return (of.name !== file.name || of.owner !== file.owner) && await this.exists(of);
    }

    /** @param {{name: string, owner: string}} file */
    async exists({ name, owner }) {
        const { groups, getRequestHeaders } = this.getContext();
        const group = (groups ?? []).find((/** @type {any} */ one) => `group:${one.id}` === owner);
        if (group) return Boolean(group.chats?.includes(name));
        try {
            const answer = await fetch('/api/characters/chats', {
                method: 'POST', headers: getRequestHeaders(), body: JSON.stringify({ avatar_url: owner, simple: true }),
            });
            const files = answer.ok ? await answer.json() : [];
            return Array.isArray(files) && files.some(({ file_name: file }) => file === `${name}.jsonl`);
        } catch {
            // SillyTavern does not answer. Players rename more often than they copy.
            return false;
        }
    }

    /**
     * Find the id of the open chat, and of its parent if it is a branch.
     *
     * SillyTavern keeps `integrity` on a rename and gives a branch a new one, but copies all other
     * metadata. So if our copy of `integrity` differs, it is the parent's. A copied file is a branch
     * too, but SillyTavern does not give it a new `integrity`: it gets an id of our own.
     *
     * @param {boolean} [copied] the result of `isCopy`
     * @returns {{file: string, id: string, parent?: string, branchedAt?: string, checkpoint?: BranchStart}|null}
     */
    identify(copied = false) {
        const current = this.current();
        if (!current) return null;
        const kept = this.kept();
        const file = this.file();
        const { changed } = chainOf(this.messages);
        // Another extension's copy of the library may have done this in the meantime.
        const known = kept.of !== undefined && Object.entries(file).every(([name, value]) => kept.of?.[/** @type {keyof File} */ (name)] === value);
        const id = (copied && !known ? undefined : current.id) ?? newId();
        if (!known) kept.of = file;
        if (kept.chatId !== id) {
            if (kept.chatId !== undefined) {
                kept.parent = kept.chatId;
                const last = this.messages.at(-1);
                kept.branchedAt = last ? identify(last, { last: true }).messageId : undefined;
                const { branching } = shared();
                delete kept.checkpoint;
                if (branching?.parent === kept.parent) kept.checkpoint = { extensionId: branching.extensionId, name: branching.checkpoint };
            }
            kept.chatId = id;
            this.saveSoon(0);
        } else if (changed || !known) {
            this.saveSoon(0);
        }
        return { file: current.file, id, parent: kept.parent, branchedAt: kept.branchedAt, checkpoint: kept.checkpoint };
    }

    /** Forget the checkpoint of a branch: the branch was started. */
    clearCheckpoint() {
        delete this.kept().checkpoint;
        this.saveSoon(0);
    }

    /**
     * Record that there are new ids. SillyTavern saves a message by itself after its event. While it saves, the
     * player cannot change to another character, so an extra save is avoided.
     */
    noteNewIds() {
        this.unsaved = true;
    }

    /**
     * Save the chat with its metadata a little later, if the same chat is still open.
     *
     * @param {number} [after]
     */
    saveSoon(after = SAVE_AFTER_MS) {
        this.unsaved = false;
        const which = this.current();
        const due = Date.now() + after;
        if (this.#later && this.#later.file === which?.file && this.#later.due <= due) return;
        if (this.#later) clearTimeout(this.#later.timer);
        const timer = setTimeout(() => {
            this.#later = null;
            this.save(which).catch((error) => console.warn('[ValueTracker] The chat could not be saved.', error));
        }, after);
        this.#later = { timer, due, file: which?.file };
    }

    /**
     * Save the chat with its metadata.
     *
     * SillyTavern writes the content of the page to the file that the page names. While it changes from one
     * chat to another, that is an empty chat, or the messages of one chat with the metadata of the other. While a
     * swipe is generated, `swipe_id` points to a swipe that does not exist. None of these may be saved.
     *
     * @param {{file: string, id: string|undefined}|null} which
     */
    async save(which) {
        const now = this.current();
        const { messages } = this;
        if (!which || !now || now.file !== which.file || now.id !== which.id || messages.length === 0) return;
        if (messages.some(({ swipes, swipe_id: swipe }) => Array.isArray(swipes) && (swipe ?? 0) >= swipes.length)) {
            this.saveSoon();
            return;
        }
        const context = this.getContext();
        if (context.saveMetadata) await context.saveMetadata();
        else await context.saveChat?.();
    }

    /** Return the owner of the chat's values: the avatar file of the character, else the group. */
    characterId() {
        const { characters, characterId, groupId } = this.getContext();
        return characters?.[characterId]?.avatar ?? (groupId ? `group:${groupId}` : 'chat');
    }
}
