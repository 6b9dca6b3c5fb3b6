/**
 * Changes of values: before and after. A single change inside an object or a list is shown as that change.
 */

import { make } from '../dom.js';
import { narrowed } from '../values/typed.js';
import { valueShown } from './valueshown.js';

/**
 * @param {any} before
 * @param {any} after
 * @param {string} [within] the path inside the value, if it is shown here
 */
function changeShown(before, after, within = '') {
    return make('span', { class: 'vt-change' }, within ? `${within}: ` : '', valueShown(before), ' → ', valueShown(after));
}

/**
 * @param {any} before
 * @param {any} after
 */
export function change(before, after) {
    const { path, ...inside } = narrowed(before, after);
    return changeShown(inside.before, inside.after, path.join('.'));
}

/**
 * @param {Array<{title: string, before: any, after: any}>} differences
 */
export function differenceList(differences) {
    return make('ul', { class: 'vt-differences' }, ...differences.map(({ title, ...whole }) => {
        const { path, before, after } = narrowed(whole.before, whole.after);
        const name = [title, ...path].join('.');
        return make('li', {}, make('span', { class: 'vt-name', title: name }, name), changeShown(before, after));
    }));
}
