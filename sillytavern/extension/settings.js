/**
 * The player's settings, for all chats. SillyTavern stores them with its own settings.
 */

const NAME = 'valuetracker';

/**
 * @typedef {object} Settings
 * @property {boolean} open whether the panel is shown on wide screens
 * @property {boolean} tool whether the model may set values
 * @property {'off'|'chosen'|'all'} inject which values are put into the prompt
 * @property {string[]} chosen the names of the values for the prompt
 * @property {number} depth
 * @property {number} role SillyTavern's number of the role
 * @property {boolean} sessions whether this page replies to sessions
 * @property {boolean} lorebook whether a save point copies the chat's lorebook
 * @property {import('./tavern/renames.js').Rename[]} renames of characters that are not on the server yet
 */

/** @type {Settings} */
const DEFAULTS = { open: false, tool: false, inject: 'off', chosen: [], depth: 1, role: 0, sessions: false, lorebook: true, renames: [] };
const DEEPEST = 1000;

/** On narrow screens the panel covers the chat. style.css has the same condition. */
const NARROW = '(max-width: 1000px)';

/** True if the player opened the panel on a narrow screen; it never covers the chat by itself. */
let openHere = false;

/** @type {Set<() => void>} */
const listeners = new Set();

/** @returns {Settings} */
export function settings() {
    const { extensionSettings } = SillyTavern.getContext();
    const kept = extensionSettings[NAME] ??= {};
    for (const [name, value] of Object.entries(DEFAULTS)) {
        if (typeof kept[name] !== typeof value) kept[name] = structuredClone(value);
    }
    for (const name of ['chosen', 'renames']) if (!Array.isArray(kept[name])) kept[name] = [];
    return kept;
}

/** @param {Partial<Settings>} changes */
export function change(changes) {
    const kept = settings();
    Object.assign(kept, changes);
    kept.depth = Math.min(Math.max(Math.trunc(kept.depth) || 0, 0), DEEPEST);
    SillyTavern.getContext().saveSettingsDebounced();
    notifyListeners();
}

function notifyListeners() {
    for (const listener of listeners) listener();
}

/** @param {() => void} listener */
export function onSettings(listener) {
    if (!listeners.size) matchMedia(NARROW).addEventListener('change', notifyListeners);
    listeners.add(listener);
}

/** Return true if the panel covers the chat. */
export function isNarrow() {
    return matchMedia(NARROW).matches;
}

/** Return true if the panel is shown. */
export function isOpen() {
    return isNarrow() ? openHere : settings().open;
}

/** @param {boolean} open */
export function setOpen(open) {
    const narrow = isNarrow();
    if (narrow) openHere = open;
    if (narrow) notifyListeners();
    else change({ open });
}

/**
 * Return true if a value is put into the prompt.
 *
 * @param {string} reference
 */
export function isInPrompt(reference) {
    const { inject, chosen } = settings();
    return inject === 'all' || (inject === 'chosen' && chosen.includes(reference));
}

/**
 * @param {string} reference
 * @param {boolean} included
 */
export function setInPrompt(reference, included) {
    const { inject, chosen } = settings();
    const others = chosen.filter((one) => one !== reference);
    change({ chosen: included ? [...others, reference] : others, inject: included && inject === 'off' ? 'chosen' : inject });
}
