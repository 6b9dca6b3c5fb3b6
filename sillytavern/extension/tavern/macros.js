/**
 * `{{vt::key}}`, `{{vt::who.key.path}}`, `{{vt::key::default}}`.
 */

import { ABSENT, lookUp } from '../values/paths.js';
import { asText, withoutMacros } from '../values/typed.js';

/** Return true if SillyTavern expands them: its old macro engine, which players can still choose, does not. */
export function macrosWork() {
    const { macros, powerUserSettings } = SillyTavern.getContext();
    return Boolean(macros?.register) && powerUserSettings?.experimental_macro_engine !== false;
}

/** @param {import('../values/tracker.js').Tracker} tracker */
export function registerMacros(tracker) {
    SillyTavern.getContext().macros?.register('vt', {
        category: 'variable',
        // All text behind the second `::` is the default, even if it contains `::`.
        unnamedArgs: [
            { name: 'path', description: 'key, key.path, or character.key', sampleValue: 'hp' },
            { name: 'default', optional: true, defaultValue: '', description: 'The text if there is no value.' },
        ],
        list: true,
        description: 'A value of this chat from Value Tracker.',
        returns: 'The value: text unchanged, everything else as JSON.',
        displayOverride: '{{vt::path::default}}',
        exampleUsage: ['{{vt::hp}}', '{{vt::Seraphina.mood}}', '{{vt::inventory.0::nothing}}'],
        handler: (/** @type {any} */ { args: [path = '', ...otherwise] }) => {
            const { owners } = tracker;
            // The name of a value may contain `::`.
            const whole = lookUp(owners, [path, ...otherwise].join('::').trim());
            const value = whole === ABSENT ? lookUp(owners, path.trim()) : whole;
            return value === ABSENT ? otherwise.join('::') : withoutMacros(asText(value));
        },
    });
}
