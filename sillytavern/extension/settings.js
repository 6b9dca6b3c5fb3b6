/**
 * What the player has chosen, for all chats; SillyTavern keeps it with its own settings.
 */

const NAME = 'valuetracker';

/**
 * @typedef {object} Settings
 * @property {boolean} open whether the panel is shown where there is room beside the chat
 * @property {boolean} tool whether the model may set values
 * @property {'off'|'chosen'|'all'} inject which values the model is told
 * @property {string[]} chosen the names of those that are chosen
 * @property {number} depth
 * @property {number} role SillyTavern's number of it
 * @property {boolean} sessions whether this page replies to sessions
 * @property {import('./tavern/renames.js').Rename[]} renames of characters, that the server does not know of yet
 */

/** @type {Settings} */
const DEFAULTS = { open: false, tool: false, inject: 'off', chosen: [], depth: 1, role: 0, sessions: false, renames: [] };
const DEEPEST = 1000;

/** Where the panel lies over the chat. style.css has the same. */
const NARROW = '(max-width: 1000px)';

/** Whether it was opened there, in this page: it covers no chat before somebody wants it to. */
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
    tellListeners();
}

function tellListeners() {
    for (const listener of listeners) listener();
}

/** @param {() => void} listener */
export function onSettings(listener) {
    if (!listeners.size) matchMedia(NARROW).addEventListener('change', tellListeners);
    listeners.add(listener);
}

/** Whether the panel is shown. */
export function isOpen() {
    return matchMedia(NARROW).matches ? openHere : settings().open;
}

/** @param {boolean} open */
export function setOpen(open) {
    const narrow = matchMedia(NARROW).matches;
    if (narrow) openHere = open;
    if (narrow) tellListeners();
    else change({ open });
}

/**
 * Whether the model is told the value of that name.
 *
 * @param {string} reference
 */
export function isTold(reference) {
    const { inject, chosen } = settings();
    return inject === 'all' || (inject === 'chosen' && chosen.includes(reference));
}

/**
 * @param {string} reference
 * @param {boolean} told
 */
export function tell(reference, told) {
    const { inject, chosen } = settings();
    const others = chosen.filter((one) => one !== reference);
    change({ chosen: told ? [...others, reference] : others, inject: told && inject === 'off' ? 'chosen' : inject });
}
