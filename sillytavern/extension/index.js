/**
 * The Value Tracker extension: puts the parts together and starts them.
 *
 * Everything starts from SillyTavern.getContext(); only client/ talks to the server.
 */

import { make } from './dom.js';
import { showBadges } from './panel/badges.js';
import { Panel } from './panel/panel.js';
import { showSettings } from './panel/settingsview.js';
import { isOpen, setOpen } from './settings.js';
import { say } from './strings.js';
import { registerCommands } from './tavern/commands.js';
import { startInjection } from './tavern/injection.js';
import { registerMacros } from './tavern/macros.js';
import { followRenames } from './tavern/renames.js';
import { startSessions } from './tavern/sessions.js';
import { startTool } from './tavern/tool.js';
import { LastStep } from './values/laststep.js';
import { loadPersonas } from './values/people.js';
import { followBranches } from './values/savepoints.js';
import { Tracker } from './values/tracker.js';

/** SillyTavern's name of this folder, which depends on where it was installed. */
const FOLDER = /\/extensions\/(.+)\/index\.js/.exec(new URL(import.meta.url).pathname)?.[1] ?? 'third-party/valuetracker';

const tracker = new Tracker();

/** @param {string} name */
async function template(name) {
    const { renderExtensionTemplateAsync } = SillyTavern.getContext();
    const parsed = new DOMParser().parseFromString(await renderExtensionTemplateAsync(decodeURIComponent(FOLDER), name), 'text/html');
    return document.adoptNode(/** @type {Element} */ (parsed.body.firstElementChild));
}

function addToMenu() {
    const item = make('div', { id: 'vt_menu', class: 'list-group-item flex-container flexGap5 interactable', tabindex: 0, title: say('menuTip'), onclick: () => setOpen(!isOpen()) },
        make('div', { class: 'fa-solid fa-chart-line extensionsMenuExtensionButton' }), make('span', {}, say('title')));
    document.getElementById('extensionsMenu')?.append(make('div', { class: 'extension_container' }, item));
}

async function start() {
    // Created before the connection, so that its listeners are called before the client's.
    const lastStep = new LastStep(tracker);
    const [panel, settingsPart] = await Promise.all([template('panel'), template('settings'), loadPersonas()]);
    document.body.append(panel);
    new Panel(tracker, lastStep, panel);
    document.getElementById('extensions_settings2')?.append(settingsPart);
    showSettings(tracker, settingsPart);
    addToMenu();
    followRenames(tracker);
    followBranches(tracker);
    startInjection(tracker);
    startTool(tracker);
    showBadges();
    startSessions(tracker);
    await tracker.connect();
}

registerMacros(tracker);
registerCommands(tracker);
const { eventSource, eventTypes } = SillyTavern.getContext();
eventSource.once(eventTypes.APP_READY, () => {
    start().catch((error) => console.error('[ValueTracker]', error));
});
