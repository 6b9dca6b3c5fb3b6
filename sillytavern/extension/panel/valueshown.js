/**
 * A value on one line.
 */

import { make } from '../dom.js';
import { say } from '../strings.js';
import { asText, kindOf, looksTyped } from '../values/typed.js';

const LONGEST = 200;

/**
 * @param {any} value undefined is one that is not there
 * @returns {any}
 */
export function valueShown(value) {
    const kind = value === undefined ? 'absent' : kindOf(value);
    const words = { absent: say('absent'), nothing: say('nothing'), switch: value ? say('yes') : say('no') };
    const text = kind in words ? words[/** @type {keyof typeof words} */ (kind)] : asText(value);
    const short = text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text;
    // Text that could be taken for something else stands in quotes.
    const quoted = kind === 'text' && (!text.trim() || looksTyped(text));
    return make('span', { class: `vt-value vt-${kind}` }, quoted ? `"${short}"` : short);
}
