/**
 * All texts of the panel, in English. A translation is a JSON file with the same names, each after
 * `valuetracker.`; manifest.json lists it under `i18n` (de-de.json is one).
 *
 * `{name}` is a placeholder. The texts are never parsed as HTML.
 */

const PREFIX = 'valuetracker.';

export const ENGLISH = {
    title: 'Values',
    menuTip: 'Show the values of this chat',
    close: 'Close',
    cancel: 'Cancel',
    save: 'Save',
    remove: 'Remove',
    reload: 'Reload',

    online: 'Connected',
    away: 'Server away',
    awayNotice: 'The Value Tracker server does not answer. Your values are kept in this chat and are saved to the server when it is back. Until then, swiping or deleting messages undoes nothing.',
    connecting: 'Connecting…',
    refused: 'Not connected: {error}',
    staleNotice: 'This chat continued in another tab. The values shown are those of the other tab.',
    reloadTip: 'Show the messages that were saved last',
    insist: 'Continue here',
    insistTip: 'Make the values follow the messages of this tab',
    conflictNotice: '“{key}” was also changed elsewhere, to {other}. It is {now} now.',
    conflictLost: '“{key}” was changed elsewhere and is {now} now. Here it was {other}.',
    useOther: 'Use {value}',
    errorNotice: 'Not saved: {error}',
    movedNotice: 'The server is back. Your changes are saved.',

    noChat: 'Open a chat to see its values. A temporary chat has none.',
    noValues: 'No values yet. Add one, or let the model set some.',
    valuesAway: 'The server is away, so its values for this chat cannot be shown.',
    noValuesOther: 'This extension has no values for this chat.',
    own: 'Values of this chat',
    readOnly: '{extension} (read only)',
    whose: 'Whose values to show',
    search: 'Search',
    searchNone: 'No name or value contains that.',
    showAll: 'Show all {count}',
    showFewer: 'Show fewer',
    chatGroup: 'Chat',
    instanceCount: '{name} · {instance}',

    edit: 'Edit',
    add: 'Add a value',
    belongsTo: 'Belongs to',
    name: 'Name',
    value: 'Value',
    kind: 'Kind',
    kindAuto: 'Automatic',
    kindText: 'Text',
    kindNumber: 'Number',
    kindSwitch: 'Yes / No',
    kindJson: 'List or object',
    kindNothing: 'Nothing',
    yes: 'Yes',
    no: 'No',
    nothing: 'nothing',
    absent: 'none',
    nameNeeded: 'Enter a name: one line of up to 1024 characters.',
    nameTaken: 'A value with this name already exists.',
    notANumber: 'This is not a number. Write it like 12, -3 or 1.5.',
    notCountable: '“{key}” is not a number.',
    notExact: 'This number is too large to be kept exactly. Keep it as text.',
    notJson: 'This is not JSON: {error}',
    tooDeep: 'This is nested too deep.',
    noSuchIndex: '“{key}” is a list of {count}: use an index from 0 to {count}, not {index}.',
    changedMeanwhile: 'The value was changed elsewhere and is {value} now.',
    removedMeanwhile: 'The value was removed elsewhere. Saving creates it again.',
    removeValue: 'Remove this value',
    removeSure: 'Remove “{key}”?',
    macro: 'In prompts',
    macrosOff: 'Macros of values, {{vt::…}}, are not replaced: they need “Experimental Macro Engine” in SillyTavern\'s user settings.',
    includeInPrompt: 'Tell the model',
    includedInPrompt: 'The model is told this value',
    allInPrompt: 'By the settings the model is told all values',
    history: 'History',
    noHistory: 'No changes recorded.',
    lineTip: 'The last {count} values',
    byYou: 'you',
    byModel: 'message {index}',
    byMessage: 'another message',
    byExtension: 'by an extension',
    byRestore: 'restored',
    undone: 'undone',
    superseded: 'came late: a later message decides',

    lastSwipe: 'The last swipe changed',
    lastDelete: 'The last deletion changed',
    lastReply: 'The last reply changed',
    lastRegenerate: 'The new reply changed',
    lastRestore: 'Restoring changed',
    changedNothing: 'Nothing',

    checkpoints: 'Checkpoints',
    checkpointTip: 'Save all values of this chat as they are at a message, to restore them later.',
    checkpointName: 'Name (optional)',
    checkpointAt: 'As of',
    checkpointMessage: '#{index} {name}: {text}',
    checkpointCreate: 'Create',
    checkpointNone: 'None yet.',
    checkpointsAway: 'Checkpoints need the server.',
    checkpointAsOf: 'as of #{index}',
    checkpointMessageDeleted: 'its message was deleted',
    checkpointWaiting: 'waiting',
    restore: 'Restore',
    restorePreview: 'Restoring “{name}” would change:',
    restoreNothing: 'All values are the same as at “{name}”.',
    branchTip: 'Start a new chat at this checkpoint\'s message, with the values of the checkpoint',
    branchDiffers: 'The values are those of “{name}”. The messages are not: a message that was swiped since then shows its current text.',
    branchNoMessage: 'The message of this checkpoint is no longer in the chat.',
    removeCheckpoint: 'Remove this checkpoint; the values stay',
    removeCheckpointSure: 'Remove “{name}”? The values stay.',

    settingsTitle: 'Value Tracker',
    openPanel: 'Show values',
    settingTool: 'The model may set values',
    settingToolTip: 'Gives the model a function that sets values. Function calling must be on in the settings of the API connection.',
    settingToolOff: 'Function calling is off for this API connection, or the connection does not support it.',
    toolCalled: 'Setting a value',
    settingInject: 'Tell the model values',
    injectOff: 'None',
    injectChosen: 'The values I have chosen',
    injectAll: 'All',
    settingDepth: 'Depth',
    settingDepthTip: 'The number of messages after the values; 0: after the last message',
    settingRole: 'As',
    roleSystem: 'System',
    roleUser: 'User',
    roleAssistant: 'Assistant',
    settingSessions: 'Reply to visual novels',
    settingSessionsTip: 'When a tool sends a session through Value Tracker, this page lets the model reply to it.',

    helpGet: 'Returns a value of this chat.',
    helpSet: 'Sets a value of this chat. Valid JSON is stored as JSON: 5 is a number, "5" is text.',
    helpInc: 'Adds to a number of this chat and returns the sum.',
    helpCheckpoint: 'Saves all values of this chat as of a message and returns the checkpoint\'s name.',
    helpRestore: 'Restores all values of this chat from a checkpoint and returns how many changed.',
    helpExample: 'Example:',
    argKey: 'the name of the value: key, key.path, or character.key',
    argValue: 'the value',
    argKeyValue: 'the name and the value',
    argDefault: 'the text to return if there is no value',
    argAs: 'text stores the value as text even if it is valid JSON',
    argFollow: 'true: the change belongs to the last message, so swiping undoes it',
    argBy: 'the name and how much to add (1)',
    argCheckpoint: 'a name for the checkpoint',
    argMessage: 'the message whose values are saved; defaults to the last one',
    argRestore: 'the name of the checkpoint',
    returnsCount: 'how many values changed',
    argPreview: 'true: only list the changes',
    commandNoChat: 'No chat is open. A temporary chat has no values.',
    commandNoKey: 'Name the value.',
    commandNoValue: 'Give a value for “{key}”; write an empty text as "".',
    commandOneOf: '{name}={given} is not one of: {choices}.',
    commandNotANumber: '“{text}” is not a number.',
    commandNoCheckpoint: 'Name the checkpoint.',
    commandNoMessage: 'There is no message {index}.',
};

/**
 * @param {keyof typeof ENGLISH} name
 * @param {Record<string, unknown>} [values]
 * @returns {string}
 */
export function say(name, values = {}) {
    const text = SillyTavern.getContext().translate(ENGLISH[name], PREFIX + name);
    return text.replace(/\{(\w+)\}/g, (/** @type {string} */ placeholder, /** @type {string} */ key) => (Object.hasOwn(values, key) ? String(values[key]) : placeholder));
}

/**
 * Fill a template with texts: `data-i18n` names them, as in SillyTavern's own templates.
 *
 * @param {Element} root
 */
export function fill(root) {
    for (const element of root.querySelectorAll('[data-i18n]')) {
        for (const part of (element.getAttribute('data-i18n') ?? '').split(';')) {
            const [, attribute, key] = /^(?:\[(\S+)\])?(.+)$/.exec(part) ?? [];
            const text = say(/** @type {keyof typeof ENGLISH} */ (key.slice(PREFIX.length)));
            if (attribute) element.setAttribute(attribute, text);
            else element.textContent = text;
        }
    }
}
