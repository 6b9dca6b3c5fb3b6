/**
 * Replies to sessions: a story told elsewhere (a visual novel) asks through Value Tracker, and the
 * model that is chosen here replies. valuetracker/bridge/DESIGN.md tells both sides.
 *
 * One page of a browser listens, and only while the server is there.
 */

import { onSettings, settings } from '../settings.js';
import { asText, harmless } from '../values/typed.js';

const WAIT_SECONDS = 15;
const PAUSE_MS = 5000;
const LOCK = 'valuetracker-sessions';
const ROLES = { user: 'user', player: 'user', assistant: 'assistant', system: 'system' };
const FEELING = /^\s*\[emotion:\s*([^\]\n]{1,40})\]\s*/i;

/** @param {import('../values/tracker.js').Tracker} tracker */
export function startSessions(tracker) {
    /** @type {(value?: unknown) => void} */
    let wake = () => {};
    const wanted = () => settings().sessions && tracker.status === 'online';
    const poke = () => wake();
    onSettings(poke);
    tracker.on('status', poke);

    const listen = async () => {
        while (wanted()) {
            try {
                const { body } = await tracker.vt.request('GET', '/session/pending', { query: { wait: WAIT_SECONDS }, once: true });
                // Not waited for: the next one may come meanwhile.
                if (body.prompt) void reply(tracker, body.prompt);
            } catch (error) {
                // Away, or a server that knows no sessions: the status tells when to look again.
                await new Promise((resolve) => { wake = resolve; setTimeout(resolve, PAUSE_MS); });
            }
        }
    };
    const stand = async () => {
        for (;;) {
            if (!wanted()) await new Promise((resolve) => { wake = resolve; });
            // Without locks (plain http from another machine) each page listens.
            else if (navigator.locks) await navigator.locks.request(LOCK, listen);
            else await listen();
        }
    };
    void stand();
}

/**
 * @param {import('../values/tracker.js').Tracker} tracker
 * @param {{id: string, context: any}} prompt
 */
async function reply(tracker, { id, context }) {
    let given = null;
    try {
        const { generateRaw } = SillyTavern.getContext();
        given = spoken(await generateRaw({ prompt: promptOf(context), trimNames: false }));
    } catch (error) {
        console.warn('[ValueTracker] The model did not reply to a session.', error);
    }
    try {
        await tracker.vt.request('POST', '/session/reply', { body: { id, reply: given } });
    } catch (error) {
        console.info('[ValueTracker] A reply to a session came too late.', error);
    }
}

/**
 * @param {string} text
 * @returns {{role: string, content: string, emotion?: string}}
 */
function spoken(text) {
    const feeling = FEELING.exec(text);
    const content = feeling ? text.slice(feeling[0].length) : text;
    return feeling ? { role: 'assistant', content, emotion: feeling[1].trim() } : { role: 'assistant', content };
}

/**
 * What the model is asked: the scene, its values, and what was said so far.
 *
 * @param {any} context
 * @returns {Array<{role: string, content: string}>}
 */
export function promptOf({ scene_id: sceneId, pov, scene, variables = {}, messages = [] }) {
    const about = [
        'You write the next line of a visual novel. Reply with that line alone, without a name before it. '
            + 'You may put how it is said in front, as [emotion: one word].',
        pov ? `The line is spoken by ${pov}.` : '',
        sceneId ? `Scene: ${sceneId}` : '',
        scene ? `About the scene: ${asText(scene)}` : '',
        Object.keys(variables).length
            ? `Values of the story:\n${Object.entries(variables).map(([key, value]) => `${key}: ${asText(value)}`).join('\n')}` : '',
    ];
    const said = messages.map((/** @type {any} */ { role, content }) => {
        const known = ROLES[/** @type {keyof typeof ROLES} */ (String(role).toLowerCase())];
        return { role: known ?? 'user', content: known ? asText(content) : `${role}: ${asText(content)}` };
    });
    // Some models want to be spoken to last.
    if (said.at(-1)?.role !== 'user') said.push({ role: 'user', content: '[Write the next line.]' });
    return [{ role: 'system', content: about.filter(Boolean).join('\n\n') }, ...said]
        .map(({ role, content }) => ({ role, content: harmless(content) }));
}
