/**
 * Creates elements without HTML: text is never parsed.
 */

const SVG = 'http://www.w3.org/2000/svg';

/** @typedef {Record<string, string|number|boolean|((event: any) => void)|undefined|null>} Properties */

/**
 * @param {string} tag
 * @param {Properties} [properties] `class`, attributes, and listeners such as `onclick`
 * @param {...(Node|string|null|undefined)} children
 * @returns {any}
 */
export function make(tag, properties = {}, ...children) {
    return dressed(document.createElement(tag), properties, children);
}

/**
 * @param {string} tag
 * @param {Properties} [properties]
 * @param {...(Node|string|null|undefined)} children
 * @returns {any}
 */
export function drawn(tag, properties = {}, ...children) {
    return dressed(document.createElementNS(SVG, tag), properties, children);
}

/**
 * @param {Element} element
 * @param {Properties} properties
 * @param {Array<Node|string|null|undefined>} children
 */
function dressed(element, properties, children) {
    for (const [name, value] of Object.entries(properties)) {
        if (value === undefined || value === null || value === false) continue;
        if (typeof value === 'function') element.addEventListener(name.slice(2), value);
        else if (name === 'value' && element.tagName !== 'OPTION') /** @type {any} */ (element).value = value;
        else element.setAttribute(name, value === true ? '' : String(value));
    }
    // `append` turns strings into text nodes.
    element.append(...children.filter((child) => child !== null && child !== undefined).map((child) => child ?? ''));
    return element;
}

/**
 * Create a button with an icon. The title is its label for screen readers.
 *
 * @param {string} icon
 * @param {string} title
 * @param {(event: MouseEvent) => void} onclick
 * @param {string} [name] another class
 */
export function iconButton(icon, title, onclick, name = '') {
    return make('button', { type: 'button', class: `vt-icon ${name}`, title, 'aria-label': title, onclick },
        make('i', { class: `fa-solid fa-fw ${icon}`, 'aria-hidden': 'true' }));
}

/**
 * @param {string} text
 * @param {(event: MouseEvent) => void} onclick
 * @param {Properties} [properties]
 */
export function textButton(text, onclick, { class: name = '', ...properties } = {}) {
    return make('button', { type: 'button', class: `menu_button vt-button ${name}`, onclick, ...properties }, text);
}

/**
 * Set the children of an element. A child that is already in its position is not touched, so it keeps the focus.
 *
 * @param {Element} parent
 * @param {Element[]} children
 */
export function setChildren(parent, children) {
    const wanted = new Set(children);
    for (const child of [...parent.children]) if (!wanted.has(child)) child.remove();
    children.forEach((child, index) => {
        if (parent.children[index] !== child) parent.insertBefore(child, parent.children[index] ?? null);
    });
}

/**
 * Format a time in SillyTavern's language: the time of day for today, else the date.
 *
 * @param {string} time
 * @param {boolean} [whole] the date and the time of day
 */
export function moment(time, whole = false) {
    const at = new Date(time);
    const language = SillyTavern.getContext().getCurrentLocale?.();
    if (whole) return at.toLocaleString(language, { dateStyle: 'medium', timeStyle: 'short' });
    const today = at.toDateString() === new Date().toDateString();
    return today ? at.toLocaleTimeString(language, { hour: '2-digit', minute: '2-digit' }) : at.toLocaleDateString(language);
}
