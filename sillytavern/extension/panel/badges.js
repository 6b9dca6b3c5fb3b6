/**
 * A badge at each message whose reply changed values: it names the changes and opens the panel.
 */

import { make } from '../dom.js';
import { setOpen } from '../settings.js';
import { say } from '../strings.js';
import { callsOf, named } from '../tavern/calls.js';

/** Events after which a message may have other calls than before. */
const EVENTS = ['CHAT_CHANGED', 'MESSAGE_RECEIVED', 'MESSAGE_SWIPED', 'MESSAGE_SWIPE_DELETED', 'MESSAGE_UPDATED', 'GENERATION_ENDED'];

export function showBadges() {
    const { eventSource, eventTypes } = SillyTavern.getContext();
    let drawing = false;
    const drawSoon = () => {
        if (drawing) return;
        drawing = true;
        setTimeout(() => {
            drawing = false;
            draw();
        }, 0);
    };
    for (const name of EVENTS) eventSource.on(eventTypes[name], drawSoon);
    const chat = document.getElementById('chat');
    // SillyTavern draws messages again without an event, for example after a swipe that failed.
    if (chat) new MutationObserver(drawSoon).observe(chat, { childList: true });
    drawSoon();
}

function draw() {
    const { chat } = SillyTavern.getContext();
    for (const element of document.querySelectorAll('#chat > .mes[mesid]')) {
        const message = chat[Number(element.getAttribute('mesid'))];
        const changes = message ? callsOf(message).flatMap(({ done }) => (done ? [named(done)] : [])) : [];
        const old = element.querySelector('.vt-badge');
        const text = JSON.stringify(changes);
        if ((old?.getAttribute('data-changes') ?? '[]') === text) continue;
        old?.remove();
        if (changes.length) element.querySelector('.mes_block')?.append(badge(changes, text));
    }
}

/**
 * @param {string[]} changes
 * @param {string} text
 */
function badge(changes, text) {
    const title = say('callsTip');
    return make('button', { type: 'button', class: 'vt-badge', title, 'aria-label': `${title}: ${changes.join(', ')}`, 'data-changes': text, onclick: () => setOpen(true) },
        ...changes.map((change) => make('span', {}, change)));
}
