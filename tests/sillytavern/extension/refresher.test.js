/** Work that is asked for while it runs, or that fails, is done again. */

import assert from 'node:assert/strict';
import { copyFileSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';

const folder = mkdtempSync(join(tmpdir(), 'valuetracker-'));
after(() => rmSync(folder, { recursive: true }));
copyFileSync(new URL('../../../sillytavern/extension/panel/refresher.js', import.meta.url), join(folder, 'refresher.mjs'));
const { Refresher } = await import(join(folder, 'refresher.mjs'));

/** Work whose runs end when the test says so. */
function held() {
    const runs = [];
    let wake = () => {};
    return {
        runs,
        work: () => new Promise((resolve, reject) => {
            runs.push({ resolve, reject });
            wake();
        }),
        /** Wait for the run with this number. */
        run: async (count) => {
            while (runs.length < count) await new Promise((resolve) => { wake = resolve; });
            return runs[count - 1];
        },
    };
}

test('several requests are one run', async () => {
    const { runs, work, run } = held();
    const refresher = new Refresher(work, 1);
    for (let count = 0; count < 5; count++) refresher.request();
    (await run(1)).resolve();
    refresher.request();
    (await run(2)).resolve();
    assert.equal(runs.length, 2);
});

test('requests during a run have the work done once again, after it', async () => {
    const { runs, work, run } = held();
    const refresher = new Refresher(work, 1);
    refresher.request();
    const first = await run(1);
    refresher.request();
    refresher.request(0);
    // A timer of the same length that starts later ends later.
    await new Promise((resolve) => setTimeout(resolve, 2));
    assert.equal(runs.length, 1);
    first.resolve();
    (await run(2)).resolve();
    refresher.request();
    (await run(3)).resolve();
    assert.equal(runs.length, 3);
});

test('work that fails is tried again', async () => {
    const { work, run } = held();
    const refresher = new Refresher(work, 1);
    refresher.request();
    (await run(1)).reject(new Error('there is no answer.'));
    (await run(2)).resolve();
});

test('an earlier request is not put off by a later one', async () => {
    const { work, run } = held();
    const refresher = new Refresher(work, 3_600_000);
    refresher.request();
    refresher.request(1);
    refresher.request();
    (await run(1)).resolve();
});
