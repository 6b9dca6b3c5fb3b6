/**
 * A stand-in for SillyTavern's page: chats, swipes and events of version 1.19, in the same order and
 * with the same copies of `extra`. The browser tests use the real one; this one is fast.
 */

import { randomUUID } from 'node:crypto';

const NAMES = [
    'CHAT_CHANGED', 'CHAT_CREATED', 'CHAT_LOADED', 'CHAT_RENAMED', 'CHAT_DELETED', 'GROUP_CHAT_CREATED', 'MESSAGE_SENT', 'MESSAGE_RECEIVED',
    'MESSAGE_SWIPED', 'MESSAGE_SWIPE_DELETED', 'MESSAGE_DELETED', 'MESSAGE_EDITED', 'MESSAGE_UPDATED', 'TOOL_CALLS_PERFORMED',
    'TOOL_CALLS_RENDERED', 'GENERATION_STARTED', 'GENERATION_AFTER_COMMANDS', 'GENERATION_ENDED', 'GENERATION_STOPPED',
];

class Emitter {
    /** @type {Map<string, any[]>} */
    #listeners = new Map();

    /** @param {string} name @param {any} listener */
    on(name, listener) {
        this.#listeners.set(name, [...(this.#listeners.get(name) ?? []), listener]);
    }

    /** @param {string} name @param {any} listener */
    removeListener(name, listener) {
        this.#listeners.set(name, (this.#listeners.get(name) ?? []).filter((one) => one !== listener));
    }

    /** @param {string} name @param {any[]} args */
    async emit(name, ...args) {
        for (const listener of this.#listeners.get(name) ?? []) {
            try {
                await listener.apply(this, args);
            } catch (error) {
                console.error(error);
            }
        }
    }
}

export class Tavern {
    /** The files on disk. @type {Map<string, {metadata: any, messages: any[]}>} */
    files = new Map();
    /** @type {any[]} */
    chat = [];
    /** @type {any} */
    metadata = {};
    /** @type {string|undefined} */
    file = undefined;
    /** @type {string|null} */
    groupId = null;
    eventSource = new Emitter();
    eventTypes = Object.fromEntries(NAMES.map((name) => [name, name.toLowerCase()]));
    greetings = ['Hello.'];
    saves = 0;
    /** Returns the next reply of the model. @type {() => any} */
    model = () => 'A reply.';

    getContext = () => ({
        chat: this.chat,
        chatMetadata: this.metadata,
        chatId: this.file,
        groupId: this.groupId,
        characterId: 0,
        characters: [{ name: 'Seraphina', avatar: 'Seraphina.png' }],
        getCurrentChatId: () => this.file,
        getRequestHeaders: () => ({ 'Content-Type': 'application/json', 'X-CSRF-Token': 'token' }),
        saveMetadata: () => this.save(),
        saveChat: () => this.save(),
        updateMessageBlock: () => {},
        eventSource: this.eventSource,
        eventTypes: this.eventTypes,
    });

    /** @param {string} name @param {any[]} args */
    async #emit(name, ...args) {
        await this.eventSource.emit(this.eventTypes[name], ...args);
    }

    async save() {
        this.saves++;
        if (this.file !== undefined) this.files.set(this.file, JSON.parse(JSON.stringify({ metadata: this.metadata, messages: this.chat })));
    }

    /** @param {string} file */
    async open(file) {
        this.chat.length = 0;
        await null;
        this.file = file;
        this.groupId = null;
        this.metadata = {};
        await this.#read();
        let fresh = false;
        if (this.chat.length === 0 && this.greetings.length) {
            this.chat.push(this.#greeting());
            fresh = true;
            await this.save();
        }
        await this.#emit('CHAT_CHANGED', file);
        if (fresh) await this.#emit('CHAT_CREATED');
        if (this.chat.length === 1) await this.#emit('MESSAGE_RECEIVED', 0, 'first_message');
        await this.#emit('CHAT_LOADED', {});
    }

    async #read() {
        const found = this.files.get(this.file ?? '');
        const { metadata, messages } = JSON.parse(JSON.stringify(found ?? { metadata: {}, messages: [] }));
        this.metadata = metadata;
        this.chat.splice(0, this.chat.length, ...messages);
        this.metadata.integrity ??= randomUUID();
    }

    /** A group's greetings and their events come before its metadata. @param {string} file */
    async openGroup(file) {
        this.chat.length = 0;
        this.groupId = 'group';
        this.file = file;
        await null;
        const found = this.files.get(file);
        const metadata = JSON.parse(JSON.stringify(found?.metadata ?? {}));
        metadata.integrity ??= randomUUID();
        if (found) {
            this.chat.splice(0, this.chat.length, ...JSON.parse(JSON.stringify(found.messages)));
        } else {
            for (let member = 0; member < 2; member++) {
                this.chat.push(this.#greeting());
                await this.#emit('MESSAGE_RECEIVED', this.chat.length - 1, 'first_message');
            }
        }
        this.metadata = { ...metadata };
        await this.save();
        await this.#emit('CHAT_CHANGED', file);
        if (!found) await this.#emit('GROUP_CHAT_CREATED');
    }

    async close() {
        this.chat.length = 0;
        this.file = undefined;
        this.groupId = null;
        this.metadata = {};
        await this.#emit('CHAT_CHANGED', undefined);
    }

    async reload() {
        this.chat.length = 0;
        await null;
        await this.#read();
        await this.#emit('CHAT_CHANGED', this.file);
    }

    /** Delete a file; if it is the open one, another is opened first. @param {string} file @param {string} next */
    async deleteFile(file, next) {
        this.files.delete(file);
        if (this.file === file) await this.open(next);
        await this.#emit('CHAT_DELETED', file);
    }

    /** @param {string} file */
    async rename(file) {
        const old = this.file ?? '';
        this.files.set(file, /** @type {any} */ (this.files.get(old)));
        this.files.delete(old);
        this.file = file;
        await this.reload();
        await this.#emit('CHAT_RENAMED', { oldFileName: old, newFileName: file });
    }

    /** The new chat has a copy of the current metadata. @param {number} index @param {{swipe?: number}} [options] */
    async branch(index, { swipe } = {}) {
        const name = `${this.file} - Branch #${this.files.size}`;
        const metadata = { ...structuredClone(this.metadata), main_chat: this.file, integrity: randomUUID() };
        const messages = structuredClone(this.chat.slice(0, index + 1));
        if (swipe !== undefined) show(messages[index], swipe);
        this.files.set(name, JSON.parse(JSON.stringify({ metadata, messages })));
        await this.save();
        await this.open(name);
        return name;
    }

    #greeting() {
        const [mes] = this.greetings;
        const message = { name: 'Seraphina', is_user: false, is_system: false, send_date: 'now', mes, extra: {} };
        if (this.greetings.length === 1) return message;
        return { ...message, swipe_id: 0, swipes: [...this.greetings], swipe_info: this.greetings.map(() => ({ send_date: 'now', extra: {} })) };
    }

    /** @param {string} type */
    async #started(type) {
        await this.#emit('GENERATION_STARTED', type, {}, false);
        await this.#emit('GENERATION_AFTER_COMMANDS', type, {}, false);
    }

    /** @param {string} text */
    async send(text) {
        await this.#started('normal');
        this.chat.push({ name: 'User', is_user: true, mes: text, extra: {} });
        await this.save();
        await this.#emit('MESSAGE_SENT', this.chat.length - 1);
        await this.#reply('normal');
    }

    /** @param {string} type */
    async #reply(type) {
        const said = await this.model();
        await this.#saveReply(type, said);
        await this.#emit('GENERATION_ENDED', this.chat.length);
        await this.save();
    }

    /** @param {string} type @param {any} said a text, or several */
    async #saveReply(type, said) {
        const [mes, ...more] = Array.isArray(said) ? said : [said];
        let message = this.chat.at(-1);
        if (type === 'swipe') {
            message.swipes.length++;
            message.mes = mes;
        } else {
            message = { name: 'Seraphina', is_user: false, mes, send_date: 'now', extra: {} };
            this.chat.push(message);
        }
        await this.#emit('MESSAGE_RECEIVED', this.chat.length - 1, type);
        message.swipe_info ??= [];
        message.swipe_id ??= 0;
        message.swipes ??= [];
        message.swipes[message.swipe_id] = message.mes;
        message.swipe_info[message.swipe_id] = { send_date: 'now', extra: structuredClone(message.extra) };
        for (const other of more) {
            message.swipes.push(other);
            message.swipe_info.push({ send_date: 'now', extra: structuredClone(message.extra) });
        }
    }

    /** A reply that arrives in pieces: the message exists before its event. @param {string[]} pieces @param {{swipe?: boolean, between?: () => any}} [options] */
    async stream(pieces, { swipe = false, between = () => {} } = {}) {
        const type = swipe ? 'swipe' : 'normal';
        if (swipe) await this.#overswipe();
        await this.#started(type);
        let message = this.chat.at(-1);
        if (swipe) {
            message.swipes.length++;
        } else {
            message = { name: 'Seraphina', is_user: false, mes: '', extra: {} };
            this.chat.push(message);
            Object.assign(message, { swipe_id: 0, swipes: [''], swipe_info: [] });
        }
        message.mes = '';
        for (const piece of pieces) {
            message.mes += piece;
            message.swipes[message.swipe_id] = message.mes;
            message.swipe_info[message.swipe_id] = { extra: structuredClone(message.extra) };
            await between();
        }
        await this.#emit('GENERATION_ENDED', this.chat.length);
        sync(message);
        await this.#emit('MESSAGE_RECEIVED', this.chat.length - 1, type);
        await this.save();
    }

    async #overswipe() {
        const message = this.chat.at(-1);
        sync(message);
        if (message.swipe_id === undefined) {
            Object.assign(message, { swipe_id: 0, swipes: [message.mes], swipe_info: [{ extra: structuredClone(message.extra) }] });
        }
        message.swipe_id = message.swipes.length;
        await this.#emit('MESSAGE_SWIPED', this.chat.length - 1);
    }

    /** Make a new swipe. */
    async swipe() {
        await this.#overswipe();
        await this.#started('swipe');
        await this.#reply('swipe');
    }

    /** Make a new swipe that fails: SillyTavern goes back without an event. */
    async swipeInVain() {
        await this.#overswipe();
        await this.#started('swipe');
        await this.#emit('GENERATION_STOPPED');
        await this.#emit('GENERATION_ENDED', this.chat.length);
        const message = this.chat.at(-1);
        show(message, message.swipes.length - 1);
    }

    /** Go to an existing swipe. @param {number} swipe @param {number} [index] */
    async swipeTo(swipe, index = this.chat.length - 1) {
        const message = this.chat[index];
        sync(message);
        show(message, swipe);
        await this.#emit('MESSAGE_SWIPED', index);
        await this.save();
    }

    /** @param {number} swipe @param {number} [index] */
    async deleteSwipe(swipe, index = this.chat.length - 1) {
        const message = this.chat[index];
        const current = message.swipe_id;
        message.swipes.splice(swipe, 1);
        message.swipe_info.splice(swipe, 1);
        const next = swipe < current ? current - 1 : swipe > current ? current : Math.min(swipe, message.swipes.length - 1);
        message.swipe_id = next;
        await this.#emit('MESSAGE_SWIPE_DELETED', { messageId: index, swipeId: swipe, newSwipeId: next });
        if (swipe === current) {
            show(message, next);
            await this.#emit('MESSAGE_SWIPED', index);
        }
        await this.save();
    }

    /** @param {number} count */
    async deleteLast(count) {
        this.chat.length -= count;
        await this.save();
        await this.#emit('MESSAGE_DELETED', this.chat.length);
    }

    /** @param {number} index */
    async deleteMessage(index) {
        this.chat.splice(index, 1);
        await this.#emit('MESSAGE_DELETED', this.chat.length);
        await this.save();
    }

    /** @param {number} index @param {string} text */
    async edit(index, text) {
        const message = this.chat[index];
        message.mes = text;
        if (message.swipes) message.swipes[message.swipe_id] = text;
        await this.#emit('MESSAGE_EDITED', index);
        await this.#emit('MESSAGE_UPDATED', index);
        await this.save();
    }

    async regenerate() {
        await this.#started('regenerate');
        this.chat.length--;
        await this.#emit('MESSAGE_DELETED', this.chat.length);
        await this.#reply('normal');
    }

    /** A model that calls a tool first: an empty message that goes again, the tool, its message, the reply. @param {string} text @param {() => any} tool */
    async sendWithTool(text, tool) {
        await this.#started('normal');
        this.chat.push({ name: 'User', is_user: true, mes: text, extra: {} });
        await this.#emit('MESSAGE_SENT', this.chat.length - 1);
        await this.#saveReply('normal', '');
        this.chat.length--;
        await this.#emit('MESSAGE_DELETED', this.chat.length);
        await tool();
        this.chat.push({ name: 'System', is_system: true, mes: 'tool', extra: { tool_invocations: [] } });
        await this.#emit('TOOL_CALLS_PERFORMED', []);
        await this.#emit('TOOL_CALLS_RENDERED', []);
        await this.save();
        await this.#started('normal');
        await this.#reply('normal');
    }

    /** A move has no event. @param {number} from @param {number} to */
    async move(from, to) {
        [this.chat[from], this.chat[to]] = [this.chat[to], this.chat[from]];
        await this.save();
    }

    /** A copy of a message below it. @param {number} index */
    async duplicate(index) {
        this.chat.splice(index + 1, 0, structuredClone(this.chat[index]));
        await this.save();
    }
}

/** Makes a swipe the visible one. @param {any} message @param {number} swipe */
function show(message, swipe) {
    message.swipe_id = swipe;
    message.mes = message.swipes[swipe];
    message.extra = structuredClone(message.swipe_info[swipe]?.extra) ?? {};
}

/** Keeps what is in the message with its swipe. @param {any} message */
function sync(message) {
    if (typeof message.swipe_id !== 'number' || !Array.isArray(message.swipe_info)) return;
    if (typeof message.swipes[message.swipe_id] !== 'string' || !message.swipe_info[message.swipe_id]) return;
    message.swipes[message.swipe_id] = message.mes;
    message.swipe_info[message.swipe_id].extra = structuredClone(message.extra);
}
