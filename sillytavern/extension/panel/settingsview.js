/**
 * The settings form, among those of SillyTavern's other extensions.
 */

import { change, onSettings, setOpen, settings } from '../settings.js';
import { fill } from '../strings.js';
import { macrosWork } from '../tavern/macros.js';
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
    part('vt-set-inject').addEventListener('change', (/** @type {any} */ { target }) => change({ inject: target.value }));
    part('vt-set-depth').addEventListener('change', (/** @type {any} */ { target }) => change({ depth: Number(target.value) }));
    part('vt-set-role').addEventListener('change', (/** @type {any} */ { target }) => change({ role: Number(target.value) }));
    const update = () => {
        const { tool, sessions, inject, depth, role } = settings();
        part('vt-set-tool').checked = tool;
        part('vt-set-sessions').checked = sessions;
        part('vt-set-inject').value = inject;
        part('vt-set-depth').value = depth;
        part('vt-set-role').value = role;
        part('vt-inject-place').hidden = inject === 'off';
        showNote();
    };
    const showNote = () => {
        part('vt-tool-note').hidden = !settings().tool || SillyTavern.getContext().isToolCallingSupported();
        part('vt-macro-note').hidden = macrosWork();
    };
    onSettings(update);
    // SillyTavern's own settings may have changed.
    element.addEventListener('pointerover', showNote);
    update();
}
