/**
 * The settings form, among those of SillyTavern's other extensions.
 */

import { change, onSettings, setOpen, settings } from '../settings.js';
import { fill, say } from '../strings.js';
import { macrosWork } from '../tavern/macros.js';
import { Refresher } from './refresher.js';
import { showStatus } from './status.js';

/**
 * @param {import('../values/tracker.js').Tracker} tracker
 * @param {Element} element the template
 */
export function showSettings(tracker, element) {
    fill(element);
    const part = (/** @type {string} */ name) => /** @type {any} */ (element.querySelector(`.${name}`));
    showStatus(tracker, part('vt-status'));
    part('vt-show').addEventListener('click', () => setOpen(true));
    part('vt-set-tool').addEventListener('change', (/** @type {any} */ { target }) => change({ tool: target.checked }));
    part('vt-set-sessions').addEventListener('change', (/** @type {any} */ { target }) => change({ sessions: target.checked }));
    part('vt-set-lorebook').addEventListener('change', (/** @type {any} */ { target }) => change({ lorebook: target.checked }));
    part('vt-set-inject').addEventListener('change', (/** @type {any} */ { target }) => change({ inject: target.value }));
    part('vt-set-depth').addEventListener('change', (/** @type {any} */ { target }) => change({ depth: Number(target.value) }));
    part('vt-set-role').addEventListener('change', (/** @type {any} */ { target }) => change({ role: Number(target.value) }));
    let synced = '';
    const update = () => {
        const { tool, sessions, lorebook, inject, depth, role } = settings();
        part('vt-set-tool').checked = tool;
        part('vt-set-sessions').checked = sessions;
        part('vt-set-lorebook').checked = lorebook;
        part('vt-set-inject').value = inject;
        part('vt-set-depth').value = depth;
        part('vt-set-role').value = role;
        part('vt-inject-place').hidden = inject === 'off';
        showNote();
    };
    const showNote = () => {
        part('vt-tool-note').hidden = !settings().tool || SillyTavern.getContext().isToolCallingSupported();
        part('vt-macro-note').hidden = macrosWork();
        part('vt-sync-note').textContent = synced;
        part('vt-sync-note').hidden = !settings().sessions || !synced;
    };
    tracker.on('synced', ({ ok, count, ms }) => {
        synced = say(ok ? 'settingSynced' : 'settingSyncFailed', { count, ms });
        showNote();
    });
    onSettings(update);
    // SillyTavern's own settings may have changed: it has no event for each of them.
    const noting = new Refresher(showNote, 0);
    for (const name of ['input', 'change', 'click']) document.addEventListener(name, () => noting.request(), true);
    const { eventSource, eventTypes } = SillyTavern.getContext();
    for (const name of ['SETTINGS_UPDATED', 'ONLINE_STATUS_CHANGED', 'CHATCOMPLETION_SOURCE_CHANGED']) {
        if (eventTypes[name]) eventSource.on(eventTypes[name], () => noting.request());
    }
    update();
}
