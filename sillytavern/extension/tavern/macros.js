/**
 * `{{vt::key}}`, `{{vt::who.key.path}}`, `{{vt::key::what to say if there is none}}`.
 */

import { ABSENT, lookUp } from '../values/paths.js';
import { asText, harmless } from '../values/typed.js';

/** Whether SillyTavern looks for them: its old way of macros, which can still be chosen, knows none with a path. */
export function macrosWork() {
    const { macros, powerUserSettings } = SillyTavern.getContext();
    return Boolean(macros?.register) && powerUserSettings?.experimental_macro_engine !== false;
}

/** @param {import('../values/tracker.js').Tracker} tracker */
export function registerMacros(tracker) {
    SillyTavern.getContext().macros?.register('vt', {
        category: 'variable',
        // What is behind a second `::` is all one default, however many of them it holds.
        unnamedArgs: [
            { name: 'path', description: 'key, key.path, or character.key', sampleValue: 'hp' },
            { name: 'default', optional: true, defaultValue: '', description: 'Given where there is no value.' },
        ],
        list: true,
        description: 'A value of this chat, as Value Tracker keeps it.',
        returns: 'The value: text as it is, all else as JSON.',
        displayOverride: '{{vt::path::default}}',
        exampleUsage: ['{{vt::hp}}', '{{vt::Seraphina.mood}}', '{{vt::inventory.0::nothing}}'],
        handler: (/** @type {any} */ { args: [path = '', ...otherwise] }) => {
            const { bearers } = tracker;
            // The name of a value may hold `::` itself.
            const whole = lookUp(bearers, [path, ...otherwise].join('::').trim());
            const value = whole === ABSENT ? lookUp(bearers, path.trim()) : whole;
            return value === ABSENT ? otherwise.join('::') : harmless(asText(value));
        },
    });
}
