/**
 * A list of changed values: before and after.
 */

import { make } from '../dom.js';
import { valueShown } from './valueshown.js';

/**
 * @param {Array<{title: string, before: any, after: any}>} differences
 */
export function differenceList(differences) {
    return make('ul', { class: 'vt-differences' }, ...differences.map(({ title, before, after }) => make('li', {},
        make('span', { class: 'vt-name', title }, title),
        make('span', { class: 'vt-change' }, valueShown(before), ' → ', valueShown(after)))));
}
