/**
 * Slash commands: /vt-get, /vt-set, /vt-inc, /vt-checkpoint, /vt-restore.
 *
 * The change of a command is a player's edit, unless `follow` anchors it to the last message.
 */

import { exactText } from '../client/valuetracker.js';
import { make } from '../dom.js';
import { say } from '../strings.js';
import { ABSENT, isKey, lookUp } from '../values/paths.js';
import { createSavepoint, restoreSavepoint } from '../values/savepoints.js';
import { BY_PLAYER } from '../values/tracker.js';
import { asText, kindOf, read } from '../values/typed.js';

/** @typedef {import('../values/tracker.js').Tracker} Tracker */
/** @typedef {Record<string, any>} Named */

/** A text in quotes at the beginning, and the text behind it. */
const QUOTED = /^"((?:[^"\\]|\\.)*)"(?:\s+([^]*)|$)/;
const YES = new Set(['true', 'on', '1', 'yes']);
const NO = new Set(['', 'false', 'off', '0', 'no']);

/** @type {Record<string, any>} */
const KINDS = { text: 'kindText', number: 'kindNumber', switch: 'kindSwitch', json: 'kindJson' };

class Refusal extends Error {}

/** @param {Tracker} tracker */
export function registerCommands(tracker) {
    const { ARGUMENT_TYPE: { STRING, NUMBER, BOOLEAN } } = SillyTavern.getContext();
    const key = { name: 'key', description: say('argKey'), typeList: [STRING], enumProvider: () => offered(tracker) };
    const follow = { name: 'follow', description: say('argFollow'), typeList: [BOOLEAN], defaultValue: 'false' };
    const path = { description: say('argKey'), typeList: [STRING], isRequired: true, enumProvider: () => offered(tracker) };

    add('vt-get', {
        help: 'helpGet', example: '/vt-get default=100 hp | /echo', returns: 'argValue',
        named: [{ ...key, isRequired: false }, { name: 'default', description: say('argDefault'), typeList: [STRING], defaultValue: '' }],
        unnamed: [{ ...path, isRequired: false }],
        run: (named, text) => getValue(tracker, named, text),
    });
    add('vt-set', {
        help: 'helpSet', example: '/vt-set hp 45', returns: 'argValue',
        named: [key, { name: 'as', description: say('argAs'), typeList: [STRING], enumList: ['json', 'text'], defaultValue: 'json' }, follow],
        unnamed: [{ description: say('argKeyValue'), typeList: [STRING], isRequired: true }],
        run: (named, text) => setValue(tracker, named, text),
    });
    add('vt-inc', {
        help: 'helpInc', example: '/vt-inc hp -5', returns: 'argValue',
        named: [key, follow],
        unnamed: [{ ...path, description: say('argBy') }],
        run: (named, text) => increment(tracker, named, text),
    });
    add('vt-checkpoint', {
        help: 'helpCheckpoint', example: '/vt-checkpoint message=4 Before the duel', returns: 'argRestore',
        named: [{ name: 'message', description: say('argMessage'), typeList: [NUMBER] }],
        unnamed: [{ description: say('argCheckpoint'), typeList: [STRING] }],
        run: (named, text) => nameCheckpoint(tracker, named, text),
    });
    add('vt-restore', {
        help: 'helpRestore', example: '/vt-restore Before the duel', returns: 'returnsCount',
        named: [{ name: 'preview', description: say('argPreview'), typeList: [BOOLEAN], defaultValue: 'false' }],
        unnamed: [{ description: say('argRestore'), typeList: [STRING], isRequired: true }],
        run: (named, text) => restore(tracker, named, text),
    });
}

/**
 * @param {string} name
 * @param {object} about
 * @param {any} about.help
 * @param {string} about.example
 * @param {any} about.returns
 * @param {any[]} about.named
 * @param {any[]} about.unnamed
 * @param {(named: Named, text: string) => Promise<string>|string} about.run
 */
function add(name, { help, example, returns, named, unnamed, run }) {
    const { SlashCommandParser, SlashCommand, SlashCommandArgument, SlashCommandNamedArgument } = SillyTavern.getContext();
    // The list of commands shows this text on one line, without the elements.
    const shown = make('div', {},
        make('div', {}, say(help)), ' ',
        make('div', {}, make('strong', {}, say('helpExample')), ' ', make('pre', {}, make('code', { class: 'language-stscript' }, example))));
    SlashCommandParser.addCommandObject(SlashCommand.fromProps({
        name,
        callback: async (/** @type {Named} */ given, /** @type {any} */ text) => {
            try {
                return await run(given, typeof text === 'string' ? text.trim() : asText(text ?? ''));
            } catch (error) {
                const { message, hint } = /** @type {any} */ (error);
                if (!(error instanceof Refusal)) console.warn(`[ValueTracker] /${name}`, error);
                toastr.warning([message, hint].filter(Boolean).join(' '), `/${name}`, { escapeHtml: true });
                return '';
            }
        },
        // Keep the quotes: they distinguish text from numbers.
        rawQuotes: true,
        namedArgumentList: named.map((one) => SlashCommandNamedArgument.fromProps(one)),
        unnamedArgumentList: unnamed.map((one) => SlashCommandArgument.fromProps(one)),
        // SillyTavern expects HTML here. This is our own text, which the browser has escaped.
        helpString: shown.innerHTML,
        returns: say(returns),
    }));
}

/**
 * Return the names for completion while the player types.
 *
 * @param {Tracker} tracker
 */
function offered(tracker) {
    const { SlashCommandEnumValue } = SillyTavern.getContext();
    return tracker.owners.flatMap(({ id, data }) => Object.keys(data).map((key) => new SlashCommandEnumValue(tracker.reference(id, key))));
}

/** @param {Tracker} tracker */
function openChat(tracker) {
    if (!tracker.chat) throw new Refusal(say('commandNoChat'));
    return tracker.chat;
}

/** @param {Named} named */
function optionsOf(named) {
    return isTrue(named, 'follow') ? { anchor: SillyTavern.getContext().chat.length - 1 } : BY_PLAYER;
}

/**
 * @param {Named} named
 * @param {string} name
 */
function isTrue(named, name) {
    const flag = String(named[name] ?? '').toLowerCase();
    if (YES.has(flag)) return true;
    if (NO.has(flag)) return false;
    throw new Refusal(say('commandOneOf', { name, given: named[name], choices: 'true, false' }));
}

/**
 * Return a text without the quotes around it.
 *
 * @param {string} text
 */
function unquoted(text) {
    const [, quoted, rest] = QUOTED.exec(text) ?? [];
    return quoted === undefined || rest ? text : plain(quoted);
}

/** @param {string} quoted the text between quotes */
function plain(quoted) {
    return quoted.replace(/\\(["\\])/g, '$1');
}

/**
 * Split the arguments into a name and the rest. The name is `key=`, else the first word or the text in quotes.
 *
 * @param {Named} named
 * @param {string} text
 */
function splitName({ key }, text) {
    const [, quoted, behind] = QUOTED.exec(text) ?? [];
    const [, word = '', rest = ''] = /^(\S+)\s*([^]*)$/.exec(text) ?? [];
    const found = key ? { path: String(key), rest: text }
        : quoted === undefined ? { path: word, rest } : { path: plain(quoted), rest: behind };
    if (!found.path) throw new Refusal(say('commandNoKey'));
    if (!isKey(found.path)) throw new Refusal(say('nameNeeded'));
    return found;
}

/**
 * @param {Tracker} tracker
 * @param {Named} named
 * @param {string} text
 */
function getValue(tracker, named, text) {
    openChat(tracker);
    const path = named.key ? String(named.key) : unquoted(text);
    if (!path) throw new Refusal(say('commandNoKey'));
    const value = lookUp(tracker.owners, path);
    return value === ABSENT ? String(named.default ?? '') : asText(value);
}

/**
 * @param {Tracker} tracker
 * @param {Named} named
 * @param {string} text
 */
async function setValue(tracker, named, text) {
    openChat(tracker);
    const as = named.as ?? 'json';
    if (!['json', 'text'].includes(as)) throw new Refusal(say('commandOneOf', { name: 'as', given: as, choices: 'json, text' }));
    const { path, rest } = splitName(named, text);
    if (rest === '' && as !== 'text') throw new Refusal(say('commandNoValue', { key: path }));
    const found = read(as === 'text' ? 'text' : 'auto', rest);
    if ('problem' in found) throw new Refusal(say(found.problem, { error: found.error }));
    const before = lookUp(tracker.owners, path);
    await tracker.set(path, found.value, optionsOf(named));
    tellKind(path, before, found.value);
    return asText(found.value);
}

/**
 * Tell the player that a value has another type now: later calls of the model and other extensions may fail.
 *
 * @param {string} key
 * @param {any} before
 * @param {any} after
 */
function tellKind(key, before, after) {
    const [old, now] = [before === ABSENT ? 'nothing' : kindOf(before), kindOf(after)];
    if (old === now || old === 'nothing' || now === 'nothing') return;
    toastr.info(say('kindChanged', { key, before: say(KINDS[old]), after: say(KINDS[now]) }), '/vt-set', { escapeHtml: true });
}

/**
 * @param {Tracker} tracker
 * @param {Named} named
 * @param {string} text
 */
async function increment(tracker, named, text) {
    openChat(tracker);
    const { path, rest } = splitName(named, text);
    const by = rest === '' ? 1 : Number(rest);
    if (!Number.isFinite(by)) throw new Refusal(say('commandNotANumber', { text: rest }));
    if (Number.isInteger(by) && !Number.isSafeInteger(by)) throw new Refusal(say('notExact'));
    return String(await tracker.increment(path, by, optionsOf(named)));
}

/**
 * @param {Tracker} tracker
 * @param {Named} named
 * @param {string} text
 */
async function nameCheckpoint(tracker, named, text) {
    openChat(tracker);
    const last = SillyTavern.getContext().chat.length - 1;
    const message = named.message === undefined || named.message === '' ? last : Number(named.message);
    if (!Number.isInteger(message) || message < 0 || message > last) {
        throw new Refusal(say('commandNoMessage', { index: named.message }));
    }
    return (await createSavepoint(tracker, message, unquoted(text))).name;
}

/**
 * @param {Tracker} tracker
 * @param {Named} named
 * @param {string} text
 */
async function restore(tracker, named, text) {
    const chat = openChat(tracker);
    const name = unquoted(text);
    if (!name) throw new Refusal(say('commandNoCheckpoint'));
    if (isTrue(named, 'preview')) return exactText(await chat.checkpoints.diff(name));
    return String((await restoreSavepoint(tracker, name)).changed);
}
