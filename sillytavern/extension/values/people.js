/**
 * Who may have values in the open chat: its characters and the player's own character, the persona.
 *
 * An instance refers to a character by its avatar file, and to a persona by `persona:` and that of the
 * persona. Both stay when somebody is renamed, so the names are read from SillyTavern each time.
 */

/** SillyTavern's module with the current persona; the context does not have it. */
const PERSONAS = '/scripts/personas.js';
const PREFIX = 'persona:';
/** Other names of the player's own character. */
const ALIASES = ['{{user}}', 'User', 'Persona'];

/** @typedef {{id: string, name: string, aliases: string[]}} Person `id`: the characterId of the person's instances */

/** @type {{user_avatar?: string}} */
let personas = {};

/** Load SillyTavern's module of personas. Without it there is no persona, and everything else works. */
export async function loadPersonas() {
    personas = await import(PERSONAS).catch(() => ({}));
}

/**
 * Return the player's own character; null if SillyTavern does not say who it is.
 *
 * @returns {Person|null}
 */
export function persona() {
    const { name1 } = SillyTavern.getContext();
    const avatar = personas.user_avatar;
    return avatar && name1 ? { id: PREFIX + avatar, name: name1, aliases: ALIASES } : null;
}

/**
 * Return everybody in the open chat, in the order in which a name is looked for.
 *
 * @returns {Person[]}
 */
export function people() {
    const { characters, characterId, groups, groupId } = SillyTavern.getContext();
    const members = groupId ? groups.find((/** @type {any} */ one) => one.id === groupId)?.members ?? [] : [];
    const known = (/** @type {any} */ { name, avatar }) => ({ id: avatar, name, aliases: [] });
    return [
        ...[groupId ? null : characters[characterId]].filter(Boolean).map(known),
        ...[persona()].filter((one) => one !== null),
        ...characters.filter((/** @type {any} */ one) => members.includes(one.avatar)).map(known),
    ];
}

/**
 * Return the name of a character or a persona.
 *
 * @param {string} id
 * @returns {string}
 */
export function personName(id) {
    const { characters, powerUserSettings } = SillyTavern.getContext();
    const self = persona();
    if (self?.id === id) return self.name;
    if (id.startsWith(PREFIX)) return powerUserSettings?.personas?.[id.slice(PREFIX.length)] ?? id.slice(PREFIX.length);
    return characters.find((/** @type {any} */ one) => one.avatar === id)?.name ?? id;
}

/**
 * Return a name for each instance, by its id. No two are the same: the second Ann is "Ann 2".
 *
 * @param {Array<{id: string, name: string|null, characterId: string}>} instances
 * @returns {Map<string, string>}
 */
export function namesOf(instances) {
    const taken = new Set();
    return new Map(instances.map(({ id, name, characterId }) => {
        const plain = name || personName(characterId);
        let own = plain;
        for (let number = 2; taken.has(own.toLowerCase()); number++) own = `${plain} ${number}`;
        taken.add(own.toLowerCase());
        return [id, own];
    }));
}

/**
 * Return true if two names are the same to a reader.
 *
 * @param {string} one
 * @param {string} other
 */
export function isSame(one, other) {
    return one.trim().toLowerCase() === other.trim().toLowerCase();
}
