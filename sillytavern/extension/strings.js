/**
 * Every text that a player sees, in English. A translation is a JSON file of the same names, each
 * after `valuetracker.`, that manifest.json lists under `i18n` (de-de.json is one).
 *
 * `{name}` stands for what is put in. Texts are plain: nothing here is ever read as HTML.
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
    awayNotice: 'The Value Tracker server does not answer. Your values are kept with this chat and move over when it is back; until then, swiping or deleting messages takes nothing back.',
    connecting: 'Connecting…',
    refused: 'Not connected: {error}',
    staleNotice: 'This chat went on in another tab. The values are those of there.',
    reloadTip: 'Show the messages that were saved last',
    insist: 'Go on here',
    insistTip: 'Let the values follow the messages of this tab',
    conflictNotice: '“{key}” was also changed elsewhere, to {other}. It is {now} now.',
    conflictLost: '“{key}” was changed elsewhere and is {now} now. Here it was {other}.',
    useOther: 'Use {value}',
    errorNotice: 'Not saved: {error}',
    movedNotice: 'The server is back. What you changed meanwhile is saved.',

    noChat: 'Open a chat to see its values. A temporary chat has none.',
    noValues: 'No values yet. Add one, or let the model set some.',
    valuesAway: 'What the server has for this chat cannot be seen while it is away.',
    noValuesOther: 'This extension has no values for this chat.',
    own: 'Values of this chat',
    readOnly: '{extension} (read only)',
    whose: 'Whose values to show',
    search: 'Search',
    searchNone: 'No value is called that, or says that.',
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
    nameNeeded: 'It needs a name of up to 1024 characters on one line.',
    nameTaken: 'There is a value of that name already.',
    notANumber: 'This is not a number. Write it like 12, -3 or 1.5.',
    notCountable: '“{key}” is not a number.',
    notExact: 'This number is too large to be kept exactly. Keep it as text.',
    notJson: 'This is not JSON: {error}',
    tooDeep: 'This is nested too deep.',
    noRoom: '“{key}” is a list of {count}: it has no place for {index}.',
    changedMeanwhile: 'It was changed meanwhile, and is {value} now.',
    goneMeanwhile: 'It is gone meanwhile. Saving sets it anew.',
    removeValue: 'Remove this value',
    removeSure: 'Remove “{key}”?',
    macro: 'In prompts',
    macrosOff: 'Macros of values, {{vt::…}}, stay plain text: they need “Experimental Macro Engine” in SillyTavern\'s user settings.',
    tellModel: 'Tell the model',
    toldModel: 'The model is told this value',
    toldAll: 'The settings say that the model is told all values',
    history: 'History',
    noHistory: 'No changes recorded.',
    lineTip: 'The last {count} values',
    byYou: 'you',
    byModel: 'message {index}',
    byMessage: 'another message',
    byExtension: 'by itself',
    byRestore: 'restored',
    tookBack: 'taken back',

    lastSwipe: 'The last swipe changed',
    lastDelete: 'The last deletion changed',
    lastReply: 'The last reply changed',
    lastRegenerate: 'The new reply changed',
    lastRestore: 'Restoring changed',
    changedNothing: 'Nothing',

    checkpoints: 'Checkpoints',
    checkpointTip: 'Remember all values of this chat as they are at a message, to return to them later.',
    checkpointName: 'Name (optional)',
    checkpointAt: 'As of',
    checkpointMessage: '#{index} {name}: {text}',
    checkpointCreate: 'Create',
    checkpointNone: 'None yet.',
    checkpointsAway: 'Checkpoints need the server.',
    checkpointAsOf: 'as of #{index}',
    checkpointGone: 'its message is gone',
    checkpointWaiting: 'waiting',
    restore: 'Restore',
    restorePreview: 'Restoring “{name}” would change:',
    restoreNothing: 'All values are as they were at “{name}”.',
    branchTip: 'Start a new chat at this checkpoint\'s message, with the values of then',
    branchDiffers: 'The values are those of “{name}”. The messages are not: what was swiped since then shows the text of now.',
    branchGone: 'The message of this checkpoint is no longer in the chat.',
    removeCheckpoint: 'Remove this checkpoint; the values stay',
    removeCheckpointSure: 'Remove “{name}”? The values stay.',

    settingsTitle: 'Value Tracker',
    openPanel: 'Show values',
    settingTool: 'The model may set values',
    settingToolTip: 'Offers the model a function that sets values. Needs function calling in the settings of the API connection.',
    settingToolOff: 'Function calling is switched off for this API connection, or it has none.',
    toolCalled: 'Setting a value',
    settingInject: 'Tell the model values',
    injectOff: 'None',
    injectChosen: 'Those I have chosen',
    injectAll: 'All',
    settingDepth: 'Depth',
    settingDepthTip: 'How many messages from the end; 0 is after the last',
    settingRole: 'As',
    roleSystem: 'System',
    roleUser: 'User',
    roleAssistant: 'Assistant',
    settingSessions: 'Reply to visual novels',
    settingSessionsTip: 'When a tool sends a session through Value Tracker, this page lets the model reply to it.',

    helpGet: 'Gives a value of this chat.',
    helpSet: 'Sets a value of this chat. What is JSON is kept as such: 5 is a number, "5" is text.',
    helpInc: 'Adds to a number of this chat, and gives the sum.',
    helpCheckpoint: 'Remembers all values of this chat as of a message, and gives the checkpoint\'s name.',
    helpRestore: 'Sets all values of this chat back to a checkpoint, and gives how many changed.',
    helpExample: 'Example:',
    argKey: 'the name of the value: key, key.path, or character.key',
    argValue: 'the value',
    argKeyValue: 'the name, and the value',
    argDefault: 'what to give if there is none',
    argAs: 'text keeps the value as text, whatever it looks like',
    argFollow: 'whether the change belongs to the last message, so that swiping takes it back',
    argBy: 'the name, and how much to add (1)',
    argCheckpoint: 'a name for it',
    argMessage: 'the message it is as of; the last one if not said',
    argRestore: 'the name of the checkpoint',
    returnsCount: 'how many values changed',
    argPreview: 'only list what would change',
    commandNoChat: 'No chat is open, or a temporary one, which has no values.',
    commandNoKey: 'Say which value.',
    commandNoValue: 'Say what to set “{key}” to; an empty text is written "".',
    commandOneOf: '{name}={given} is not one of: {choices}.',
    commandNotANumber: '“{text}” is not a number.',
    commandNoCheckpoint: 'Say which checkpoint.',
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
 * Puts the texts into a template: `data-i18n` names them, as SillyTavern's own templates do.
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
