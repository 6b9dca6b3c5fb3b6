/**
 * Replies to sessions: another program (a visual novel) sends a prompt through Value Tracker, and the
 * model chosen in SillyTavern replies. valuetracker/bridge/DESIGN.md describes both sides.
 *
 * One page of a browser listens, and only while the server answers.
 */

import { onSettings, settings } from '../settings.js';
import { asText, withoutMacros } from '../values/typed.js';

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
                // Not awaited: the next prompt may arrive in the meantime.
                if (body.prompt) void reply(tracker, body.prompt);
            } catch (error) {
                // The server is away, or has no sessions: wait before the next attempt.
                await new Promise((resolve) => { wake = resolve; setTimeout(resolve, PAUSE_MS); });
            }
        }
    };
    const keepListening = async () => {
        for (;;) {
            if (!wanted()) await new Promise((resolve) => { wake = resolve; });
            // Without Web Locks (plain http from another machine) every page listens.
            else if (navigator.locks) await navigator.locks.request(LOCK, listen);
            else await listen();
        }
    };
    void keepListening();
}

/**
 * @param {import('../values/tracker.js').Tracker} tracker
 * @param {{id: string, context: any}} prompt
 */
async function reply(tracker, { id, context }) {
    let given = null;
    const began = Date.now();
    try {
        const { generateRaw } = SillyTavern.getContext();
        given = parseReply(await generateRaw({ prompt: promptOf(context), trimNames: false }));
    } catch (error) {
        console.warn('[ValueTracker] The model did not reply to a session.', error);
    }
    try {
        await tracker.vt.request('POST', '/session/reply', { body: { id, reply: given } });
        tracker.emit('synced', { ok: given !== null, count: context.messages?.length ?? 0, ms: Date.now() - began });
    } catch (error) {
        console.info('[ValueTracker] The reply to a session arrived too late.', error);
    }
}

/**
 * @param {string} text
 * @returns {{role: string, content: string, emotion?: string}}
 */
function parseReply(text) {
    const feeling = FEELING.exec(text);
    const content = feeling ? text.slice(feeling[0].length) : text;
    return feeling ? { role: 'assistant', content, emotion: feeling[1].trim() } : { role: 'assistant', content };
}

/**
 * Return the prompt for the model: the scene, its values, and the messages so far.
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
    // Some models expect a user message at the end.
    if (said.at(-1)?.role !== 'user') said.push({ role: 'user', content: '[Write the next line.]' });
    return [{ role: 'system', content: about.filter(Boolean).join('\n\n') }, ...said]
        .map(({ role, content }) => ({ role, content: withoutMacros(content) }));
}
