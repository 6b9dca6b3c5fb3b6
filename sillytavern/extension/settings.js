/**
 * What the player has chosen, for all chats; SillyTavern keeps it with its own settings.
 */

const NAME = 'valuetracker';

/**
 * @typedef {object} Settings
 * @property {boolean} open whether the panel is shown
 * @property {boolean} tool whether the model may set values
 * @property {'off'|'chosen'|'all'} inject which values the model is told
 * @property {string[]} chosen the names of those that are chosen
 * @property {number} depth
 * @property {number} role SillyTavern's number of it
 * @property {boolean} sessions whether this page replies to sessions
 */

/** @type {Settings} */
const DEFAULTS = { open: false, tool: false, inject: 'off', chosen: [], depth: 1, role: 0, sessions: false };
const DEEPEST = 1000;

/** @type {Set<() => void>} */
const listeners = new Set();

/** @returns {Settings} */
export function settings() {
    const { extensionSettings } = SillyTavern.getContext();
    const kept = extensionSettings[NAME] ??= {};
    for (const [name, value] of Object.entries(DEFAULTS)) {
        if (typeof kept[name] !== typeof value) kept[name] = structuredClone(value);
    }
    if (!Array.isArray(kept.chosen)) kept.chosen = [];
    return kept;
}

/** @param {Partial<Settings>} changes */
export function change(changes) {
    const kept = settings();
    Object.assign(kept, changes);
    kept.depth = Math.min(Math.max(Math.trunc(kept.depth) || 0, 0), DEEPEST);
    SillyTavern.getContext().saveSettingsDebounced();
    for (const listener of listeners) listener();
}

/** @param {() => void} listener */
export function onSettings(listener) {
    listeners.add(listener);
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
