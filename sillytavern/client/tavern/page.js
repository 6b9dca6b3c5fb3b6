/**
 * SillyTavern's page, as far as the library needs it: the open chat, its messages, its metadata.
 *
 * The context is asked for anew each time, since its values are snapshots. `chatMetadata` is never
 * replaced: SillyTavern would not know of it. Only properties of it are set.
 */

import { newId } from '../state/json.js';
import { chainOf, identify, shared } from './ids.js';

/** What a branch is to begin with: a checkpoint of one extension. @typedef {{extensionId: string, name: string}} Began */

/** What SillyTavern calls a chat, and whose it is. @typedef {{integrity: string|undefined, name: string, owner: string}} File */

const PROPERTY = 'valuetracker';
const SAVE_AFTER_MS = 1_000;

export class Page {
    /** Whether there are ids that are in no file yet, for all we know. */
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
     * The chat that is open: what it is called here, and whose state it has.
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
     * What the library keeps in the chat's metadata, for all extensions.
     *
     * @returns {{chatId?: string, of?: File, parent?: string, branchedAt?: string, checkpoint?: Began, away?: any[]}}
     */
    kept() {
        const { chatMetadata } = this.getContext();
        return this.#kept(chatMetadata) ?? (chatMetadata[PROPERTY] = {});
    }

    /** The file that is open. @returns {File} */
    #file() {
        return { integrity: this.getContext().chatMetadata?.integrity, name: this.current()?.file ?? '', owner: this.characterId() };
    }

    /**
     * Whether this file is a copy of another that is still there. One that was imported has all of the
     * other's metadata; one that was renamed has them too, but then the other is gone.
     */
    async isCopy() {
        if (!this.current()) return false;
        const { of } = this.kept();
        const file = this.#file();
        if (of?.integrity === undefined || of.integrity !== file.integrity) return false;
        return (of.name !== file.name || of.owner !== file.owner) && await this.#isThere(of);
    }

    /** @param {File} file */
    async #isThere({ name, owner }) {
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
            // Nobody can tell. Renaming is what players do.
            return false;
        }
    }

    /**
     * Finds out which chat this is, and of which it is a branch.
     *
     * SillyTavern keeps `integrity` on a rename and gives a branch a new one, but copies
     * everything else: a copy of it that differs is the parent's. A copied file is a branch, too,
     * which SillyTavern does not know: it has an id of our own.
     *
     * @param {boolean} [copied] whether it is a copy, as far as was known a moment ago
     * @returns {{file: string, id: string, parent?: string, branchedAt?: string, checkpoint?: Began}|null}
     */
    identify(copied = false) {
        const current = this.current();
        if (!current) return null;
        const kept = this.kept();
        const file = this.#file();
        const { changed } = chainOf(this.messages);
        // Another extension's library may have been here meanwhile.
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

    /** The branch has begun with its checkpoint. */
    begun() {
        delete this.kept().checkpoint;
        this.saveSoon(0);
    }

    /**
     * There are new ids. SillyTavern saves a message after it has told of it; nobody may change to another
     * character while it saves, so it is not made to do so once more without need.
     */
    changed() {
        this.unsaved = true;
    }

    /**
     * Saves the chat with its metadata a little later, if it is still the one that is open.
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
     * Saves the chat with its metadata.
     *
     * SillyTavern writes whatever is in the page to the file that is named there. While it changes from one
     * chat to another that is nothing, or the messages of one with the metadata of the other; while a swipe is
     * generated it is one that does not exist. None of these may get into a file.
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

    /** Whom values belong to: the avatar file of the character, else the group. */
    characterId() {
        const { characters, characterId, groupId } = this.getContext();
        return characters?.[characterId]?.avatar ?? (groupId ? `group:${groupId}` : 'chat');
    }
}
