/**
 * The history of the open chat, read once for all values, and the line chart of a number.
 */

import { drawn } from '../dom.js';
import { say } from '../strings.js';

const MOST = 500;
const POINTS = 24;
const WIDTH = 64;
const HEIGHT = 18;
const EDGE = 2;

/** @typedef {{revision: number, at: string, actor: string, instanceId: string|null, key: string, op: string, before?: any, after?: any, value?: any, anchor: any, live: boolean, superseded?: boolean, space?: string}} Item */

export class Lines {
    /** Newest first. @type {Item[]} */
    items = [];
    /** @type {Map<string, Item[]>} */
    #byValue = new Map();

    /**
     * @param {any} chat
     * @param {() => boolean} isOpen returns false if another chat was opened: its history must not be that of this one
     */
    async load(chat, isOpen) {
        const items = chat && !chat.away ? (await chat.history({ limit: MOST })).items : [];
        if (!isOpen()) return;
        this.items = items;
        this.#byValue = new Map();
        for (const item of this.items) {
            if (item.space) continue;
            const id = JSON.stringify([item.instanceId, item.key]);
            if (!this.#byValue.has(id)) this.#byValue.set(id, []);
            this.#byValue.get(id)?.push(item);
        }
    }

    /**
     * Return the changes of a value, newest first.
     *
     * @param {string|null} instanceId
     * @param {string} key
     * @returns {Item[]}
     */
    of(instanceId, key) {
        return (this.#byValue.get(JSON.stringify([instanceId, key])) ?? []).filter(({ op }) => op !== 'reconcile');
    }

    /**
     * Return the numbers of a value along the visible story, oldest first.
     *
     * @param {string|null} instanceId
     * @param {string} key
     * @param {any} now
     * @returns {Array<number|bigint>}
     */
    numbers(instanceId, key, now) {
        const items = this.of(instanceId, key).filter(({ live, after }) => live && isNumber(after)).reverse();
        const numbers = items.map(({ after }) => after);
        // After reconciling, the current number may differ from the last one in the history.
        if (isNumber(now) && numbers.at(-1) !== now) numbers.push(now);
        return numbers.slice(-POINTS);
    }
}

/** @param {any} value */
function isNumber(value) {
    return typeof value === 'number' || typeof value === 'bigint';
}

/**
 * @param {Array<number|bigint>} exact at least two different ones
 * @returns {SVGElement}
 */
export function sparkline(exact) {
    const numbers = exact.map(Number);
    const least = Math.min(...numbers);
    const span = Math.max(...numbers) - least;
    const points = numbers.map((number, index) => [
        EDGE + (index * (WIDTH - 2 * EDGE)) / (numbers.length - 1),
        HEIGHT - EDGE - ((number - least) * (HEIGHT - 2 * EDGE)) / (span || 1),
    ].map((one) => Math.round(one * 10) / 10));
    const [x, y] = /** @type {number[]} */ (points.at(-1));
    return drawn('svg', { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, width: WIDTH, height: HEIGHT, role: 'img', 'aria-label': exact.join(', ') },
        drawn('title', {}, `${say('lineTip', { count: numbers.length })}: ${exact.join(', ')}`),
        drawn('polyline', { points: points.map((point) => point.join(',')).join(' ') }),
        drawn('circle', { cx: x, cy: y, r: 2 }));
}
