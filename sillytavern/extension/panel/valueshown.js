/**
 * Shows a value on one line.
 */

import { make } from '../dom.js';
import { say } from '../strings.js';
import { asText, kindOf, looksTyped } from '../values/typed.js';

const LONGEST = 200;

/**
 * @param {any} value undefined: missing
 * @returns {any}
 */
export function valueShown(value) {
    const kind = value === undefined ? 'absent' : kindOf(value);
    const words = { absent: say('absent'), nothing: say('nothing'), switch: value ? say('yes') : say('no') };
    const text = kind in words ? words[/** @type {keyof typeof words} */ (kind)] : asText(value);
    const short = text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text;
    // Quote a text that could be taken for another kind of value.
    const quoted = kind === 'text' && (!text.trim() || looksTyped(text));
    return make('span', { class: `vt-value vt-${kind}` }, quoted ? `"${short}"` : short);
}
